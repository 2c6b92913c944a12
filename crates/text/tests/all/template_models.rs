//! Chat templates in the manner of well-known models: each uses what the real one uses.

use gorgon_text::template::{ChatTemplate, Render, message};
use serde_json::{Value, json};

fn render(template: &str, messages: &[Value], variables: Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let tokens = json!({"bos_token": "<|begin|>", "eos_token": "<|eot|>"}).to_string();
    std::fs::write(folder.path().join("tokenizer_config.json"), tokens).unwrap();
    let Value::Object(variables) = variables else { panic!("variables are an object") };
    let render = Render { add_generation_prompt: true, variables, ..Render::default() };
    ChatTemplate::load(folder.path()).unwrap().render(messages, &render).unwrap()
}

/// Dates with defaults, a system message taken off the list, tools as indented JSON, filters with tests as arguments.
const LLAMA_3_1: &str = r#"{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{#- The system message is taken off. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|end|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Environment: ipython\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Today Date: " + date_string + "\n\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\n\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|end|>\n\n'+ message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("This model only supports single tool-calls at once!") }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|end|>\n\n' -}}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}
                {{- arg_name + '="' + arg_val + '"' }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- endif %}
                {%- endfor %}
            {{- ")" }}
        {%- else  %}
            {{- '{"name": "' + tool_call.name + '", "parameters": ' + (tool_call.arguments | tojson) + "}" }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|end|>\n\n' }}
{%- endif %}
"#;

#[test]
fn like_llama_3_1() {
    let call = json!({"function": {"name": "brave_search", "arguments": {"query": "boats", "lang": "en"}}});
    let messages = [
        message("system", " Be brief.\n"),
        message("user", "Hi"),
        json!({"role": "assistant", "tool_calls": [call]}),
        json!({"role": "tool", "content": {"found": "é<"}}),
    ];
    let variables =
        json!({"builtin_tools": ["brave_search", "code_interpreter"], "custom_tools": [{"name": "t", "p": {}}]});
    assert_eq!(
        render(LLAMA_3_1, &messages, variables),
        "<|begin|><|head|>system<|end|>\n\nEnvironment: ipython\nTools: brave_search\n\nToday Date: 26 Jul 2024\n\n{\n    \"name\": \"t\",\n    \
         \"p\": {}\n}\n\nBe brief.<|eot|><|head|>user<|end|>\n\nHi<|eot|><|head|>assistant<|end|>\n\nbrave_search.call(query=\"boats\", \
         lang=\"en\")<|eot|>{\"found\": \"é<\"}<|head|>assistant<|end|>\n\n"
    );
    assert_eq!(
        render(LLAMA_3_1, &[message("user", "Hi")], json!({})),
        "<|begin|><|head|>system<|end|>\n\nToday Date: 26 Jul 2024\n\n<|eot|><|head|>user<|end|>\n\nHi<|eot|><|head|>assistant<|end|>\n\n"
    );
}

/// A namespace that looks for the last question from the end, and string methods that take thoughts out of answers.
const QWEN_3: &str = r#"{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and (loop.last or (not loop.last and reasoning_content)) %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning_content.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}"#;

#[test]
fn like_qwen_3() {
    let messages = [
        message("user", "1+1?"),
        message("assistant", "<think>\nhm\n</think>\n\n2"),
        message("user", "and 2+2?"),
        message("assistant", "<think>\nask\n</think>\n\nI ask."),
        message("tool", "4"),
        message("tool", "four"),
    ];
    assert_eq!(
        render(QWEN_3, &messages, json!({"enable_thinking": false})),
        "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\nand 2+2?<|im_end|>\n<|im_start|>assistant\n\
         <think>\nask\n</think>\n\nI ask.<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response>\n<tool_response>\nfour\n\
         </tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    );
}
