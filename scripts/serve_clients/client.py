"""What the official openai client of Python does with gorgon serve."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="clients-key", max_retries=0)
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model
asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who are you?"}]

whole = client.chat.completions.create(model=model, messages=asked, temperature=0, seed=1, max_tokens=40, user="a user")
text = whole.choices[0].message.content
assert text and whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

parts, usage = [], None
stream = client.chat.completions.create(
    model=model, messages=asked, temperature=0, max_completion_tokens=40, stream=True, stream_options={"include_usage": True}
)
for chunk in stream:
    parts += [choice.delta.content or "" for choice in chunk.choices]
    usage = chunk.usage or usage
assert "".join(parts) == text and usage.completion_tokens == whole.usage.completion_tokens

several = client.chat.completions.create(model=model, messages=asked, n=3, seed=5, temperature=1, max_tokens=10)
assert [choice.index for choice in several.choices] == [0, 1, 2]

logs = client.chat.completions.create(
    model=model, messages=asked, temperature=0, max_tokens=5, logprobs=True, top_logprobs=2
)
entries = logs.choices[0].logprobs.content
assert len(entries) == 5 and len(entries[0].top_logprobs) == 2 and entries[0].logprob <= 0

cut = client.chat.completions.create(model=model, messages=asked, temperature=0, max_tokens=40, stop=[text[4:7]])
assert cut.choices[0].message.content == text[: text.index(text[4:7])] and cut.choices[0].finish_reason == "stop"

old = client.completions.create(model=model, prompt="Once upon a time", max_tokens=5, temperature=0, logprobs=1)
assert old.choices[0].finish_reason == "length" and len(old.choices[0].logprobs.tokens) == 5

plain = client.chat.completions.create(
    model=model, messages=asked, temperature=0, seed=1, max_tokens=40, extra_body={"drafts": False}
)
assert plain.choices[0].message.content == text
with client.chat.completions.with_streaming_response.create(model=model, messages=asked, max_tokens=5) as raw:
    assert raw.status_code == 200

for wrong, error in (
    ({"model": "gpt-9"}, openai.NotFoundError),
    ({"temperature": -1}, openai.BadRequestError),
    ({"presence_penalty": 1}, openai.BadRequestError),
    ({"response_format": {"type": "json_object"}}, openai.BadRequestError),
):
    try:
        client.chat.completions.create(**{"model": model, "messages": asked, **wrong})
        raise SystemExit(f"{wrong} was accepted")
    except error as caught:
        assert caught.body["message"], caught
try:
    openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
    raise SystemExit("a wrong key was accepted")
except openai.AuthenticationError:
    pass
print(f"openai {openai.__version__} (Python): ok, {text!r}")
