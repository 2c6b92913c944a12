"""A serving engine with OpenAI's interface. Its answers depend on prompt and seed alone."""

import hashlib
import json
import random
import re
import time

from wire import Reply, Server

# Beside those of every server.
ENGINE_MOODS = ("other json", "wrong ids", "huge ids", "nan", "half json")
WORDS = re.compile(r"^Ġ[a-z]{2,}$")


class Engine(Server):
    """Answers with a few words of a tokenizer's vocabulary."""

    def __init__(self, model, moods=("honest",), pause=0.0):
        tokenizer = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
        self.words = sorted((token, word) for word, token in tokenizer["model"]["vocab"].items() if WORDS.match(word))
        self.pause = pause
        super().__init__(moods)

    def is_touched(self, request):
        return "/completions" in request.path

    def reply(self, request, mood):
        if "/models" in request.path:
            return Reply(body=json.dumps({"data": [{"id": "served"}]}).encode())
        time.sleep(self.pause)
        body = json.dumps(self.answer(json.loads(request.body), mood)).encode()
        if mood == "other json":
            body = b'{"weather": "fine"}'
        return Reply(body=body[:len(body) // 2] if mood == "half json" else body)

    def answer(self, question, mood):
        """The answer to a question, as vLLM words it."""
        told = json.dumps([question["prompt"], question["seed"]]).encode()
        chance = random.Random(hashlib.sha256(told).digest())
        picked = [chance.choice(self.words) for _ in range(min(8, question["max_tokens"] - 1))]
        ids = [token for token, _ in picked]
        choice = {"index": 0, "text": "".join(" " + word[1:] for _, word in picked), "finish_reason": "stop"}
        wrong = {"wrong ids": [token + 1 for token in ids], "huge ids": [token + (1 << 33) for token in ids]}
        choice["token_ids"] = wrong.get(mood, ids)
        if mood == "nan":
            choice["text"] = float("nan")
        if isinstance(question["prompt"], list):
            choice["prompt_token_ids"] = question["prompt"]
        return {"choices": [choice]}
