//! Chat templates: where they come from and what they may call.

use crate::rendering;

use gorgon_text::template::{ChatTemplate, Limits, Render, TemplateError, message};
use rendering::{assert_one_line, load, render, render_with};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

#[track_caller]
fn assert_renders(template: &str, expected: &str) {
    assert_eq!(render(template).unwrap(), expected, "{template}");
}

#[test]
fn whitespace_is_as_in_transformers() {
    assert_renders("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc");
    assert_renders("{{ 1 }}\n{{ 2 }}\n\n", "1\n2\n");
    assert_renders("a {%- if true -%} b {%- endif %} c", "ab c");
}

#[test]
fn python_methods_and_operators() {
    assert_renders("{{ messages[-1]['content'].strip() }}|{{ messages[0].content.split('b')[1:] | length }}", "bye|2");
    assert_renders("{{ messages | map(attribute='role') | join(',') }}", "user,assistant,user");
    assert_renders("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "2");
    assert_renders("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role[0] }}{% endfor %}", "0u1a2u");
    assert_renders(
        "{{ 'a' * 3 }}{{ 3 * 'b' }}{{ 2 * 3 }}{{ 1.5 * 2 }}{{ ([1] * 2) | length }}{{ 'x' * -1 }}",
        "aaabbb63.02",
    );
    assert_renders(
        "{{ 'a-b'.replace('-', '+') }}{{ '-'.join(['x', 'y']) }}{{ '{}:{:>3}'.format('n', 5) }}",
        "a+bx-yn:  5",
    );
    assert_renders("{{ 'think: x'.removeprefix('think: ') }}{{ 'a.b'.removesuffix('.b') }}", "xa");
    assert_renders(
        "{{ {'a': 1}.get('b', 2) }}{% for k, v in {'a': 1, 'z': 2}.items() %}{{ k }}{{ v }}{% endfor %}",
        "2a1z2",
    );
    assert_renders("{{ True }}{{ None }}{{ false }}{{ nothing }}", "TrueNoneFalse");
    assert_renders("{% set x %} in {% endset %}[{{ x | trim }}]{% filter upper %}up{% endfilter %}", "[in]UP");
    assert_renders(
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "023",
    );
    assert_renders("{{ 'a\\nb' | indent(2) }}|{{ 'a\\nb' | indent(width=1, first=true) }}", "a\n  b| a\n b");
    assert_renders("{{ 'x' in 'xyz' and 'q' not in ['r'] and 1 < 2 < 3 }}", "True");
}

#[test]
fn macros_namespaces_and_loops() {
    assert_renders("{% macro f(a, b='d') %}<{{ a }}{{ b }}>{% endmacro %}{{ f('x') }}{{ f('y', b='z') }}", "<xd><yz>");
    assert_renders("{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}in{% endcall %}", "[in]");
    assert_renders(
        "{% set ns = namespace(n=0, seen=[]) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}\
         {% set ns.seen = ns.seen + [m.role] %}{% endfor %}{{ ns.n }}{{ ns.seen | join }}",
        "3userassistantuser",
    );
    assert_renders(
        "{% macro walk(t) %}{{ t.n }}{% for c in t.c %}({{ walk(c) }}){% endfor %}{% endmacro %}\
         {{ walk({'n': 1, 'c': [{'n': 2, 'c': []}, {'n': 3, 'c': [{'n': 4, 'c': []}]}]}) }}",
        "1(2)(3(4))",
    );
    assert_renders(
        "{% for t in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ t.n }}{{ loop(t.c) }}{% endfor %}",
        "12",
    );
    assert_renders(
        "{% for i in [1, 2, 3] %}{{ loop.cycle('a', 'b') }}{{ loop.previtem }}{{ ',' if not loop.last }}{% endfor %}",
        "a,b1,a2",
    );
    assert_renders(
        "{% for i in [1, 2, 3, 4] if i is even %}{{ i }}{{ loop.length }}{% else %}none{% endfor %}",
        "2242",
    );
}

#[test]
fn json_is_as_in_python() {
    let tools = json!([{"b": 1, "a": "<&'\"\n é \u{7}", "f": 1e-7, "g": 2.0, "h": 1e16, "i": 0.1, "e": [], "o": {}, "n": null}]);
    let with = |template: &str| render_with(template, json!({"tools": tools})).unwrap();
    assert_eq!(
        with("{{ tools | tojson }}"),
        r#"[{"b": 1, "a": "<&'\"\n é \u0007", "f": 1e-07, "g": 2.0, "h": 1e+16, "i": 0.1, "e": [], "o": {}, "n": null}]"#
    );
    assert_eq!(
        with("{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }}"),
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n  \"c\": {}\n}"
    );
    assert_eq!(
        with("{{ {'z': 'é🙂', 'a': true} | tojson(sort_keys=true, ensure_ascii=true) }}"),
        r#"{"a": true, "z": "\u00e9\ud83d\ude42"}"#
    );
    assert_eq!(with("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}"), r#"{"a":[1,2]}"#);
    assert_eq!(with("{{ tools is none }}{{ documents is none }}"), "FalseTrue");
}

#[test]
fn time_is_given_or_the_clock() {
    let template = load("{{ strftime_now('%d %b %Y') }}").unwrap();
    let now = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_721_952_000));
    assert_eq!(template.render(&[], &Render { now, ..Render::default() }).unwrap(), "26 Jul 2024");
    assert_eq!(template.render(&[], &Render::default()).unwrap().len(), 11);
}

#[test]
fn training_marks_are_no_output() {
    assert_renders(
        "{% for m in messages %}{%- if m.role == 'assistant' %}\n{% generation %}{{ m.content }}{%- endgeneration -%}\n{% endif %}{% endfor %}",
        "Grüße 🙂",
    );
}

fn write(folder: &Path, file: &str, content: &str) {
    std::fs::write(folder.join(file), content).unwrap();
}

#[test]
fn the_template_comes_from_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let render = || ChatTemplate::load(folder).and_then(|t| t.render(&[], &Render::default()));

    let error = render().unwrap_err();
    assert!(matches!(error, TemplateError::Missing { .. }) && error.to_string().contains("--raw"), "{error}");

    let named = json!({"chat_template": [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]});
    write(folder, "tokenizer_config.json", &named.to_string());
    assert_eq!(render().unwrap(), "d");

    write(folder, "tokenizer_config.json", r#"{"chat_template": [{"name": "tools", "template": "t"}]}"#);
    assert_eq!(render().unwrap(), "t");

    write(folder, "tokenizer_config.json", r#"{"chat_template": [{"name": "a"}, {"name": "b"}]}"#);
    assert!(render().unwrap_err().to_string().contains("a, b"));

    write(
        folder,
        "tokenizer_config.json",
        r#"{"bos_token": {"content": "<s>"}, "eos_token": null, "chat_template": "{{ bos_token }}{{ eos_token }}!"}"#,
    );
    assert_eq!(render().unwrap(), "<s>!");

    write(folder, "chat_template.jinja", "{{ bos_token }}jinja\n");
    assert_eq!(render().unwrap(), "<s>jinja");
    assert!(ChatTemplate::load(folder).unwrap().path().ends_with("chat_template.jinja"));

    write(folder, "chat_template.jinja", "{% if %}");
    let error = ChatTemplate::load(folder).unwrap_err();
    assert!(matches!(error, TemplateError::Invalid { .. }), "{error}");
    assert_one_line(&error);
}

/// Conversations with tools take the template `tool_use`, from the config or from its own file, as in transformers.
#[test]
fn tools_may_have_a_template_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let variables = json!({"tools": [{"name": "t"}]}).as_object().unwrap().clone();
    let with_tools = Render { variables, ..Render::default() };
    let both = |expected: [&str; 2]| {
        let template = ChatTemplate::load(folder.path()).unwrap();
        assert_eq!(template.render(&[message("user", "x")], &Render::default()).unwrap(), expected[0]);
        assert_eq!(template.render(&[message("user", "x")], &with_tools).unwrap(), expected[1]);
    };
    let named = |name: &str, template: &str| json!({"name": name, "template": template});
    let list = json!([named("tool_use", "tools {{ tools[0].name }}"), named("default", "usual")]);
    write(folder.path(), "tokenizer_config.json", &json!({"chat_template": list}).to_string());
    both(["usual", "tools t"]);
    write(folder.path(), "chat_template.jinja", "file");
    both(["file", "file"]);
    std::fs::create_dir(folder.path().join("additional_chat_templates")).unwrap();
    write(folder.path(), "additional_chat_templates/tool_use.jinja", "file of {{ tools | length }}");
    both(["file", "file of 1"]);
    write(folder.path(), "additional_chat_templates/tool_use.jinja", "{% if %}");
    let error = ChatTemplate::load(folder.path()).unwrap_err().to_string();
    assert!(error.contains("tool_use.jinja"), "{error}");
}

#[test]
fn none_is_no_list_and_newlines_are_one_character() {
    assert_renders(
        "{{ tools is iterable }}{{ none is iterable }}{{ [] is iterable }}{{ 'a' is iterable }}",
        "FalseFalseTrueTrue",
    );
    assert_renders("{%- if tools is iterable and tools | length > 0 %}T{%- endif %}{{ messages | length }}", "3");
    assert_renders("a\r\nb\rc\r\n", "a\nb\nc");
}

/// `special_tokens_map.json` is read only if the config has no `added_tokens_decoder`, as in transformers.
#[test]
fn special_tokens_come_from_either_file() {
    let folder = tempfile::tempdir().unwrap();
    let rendered = |config: &Value| {
        write(folder.path(), "tokenizer_config.json", &config.to_string());
        ChatTemplate::load(folder.path()).and_then(|template| template.render(&[], &Render::default()))
    };
    let mut config = json!({"chat_template": "{{ bos_token }}{{ eos_token }}{{ image_token }}", "image_token": "<i>"});
    config["eos_token"] = json!("</s>");
    let map = json!({"bos_token": {"content": "<s>"}, "eos_token": "<other>", "additional_special_tokens": ["x"]});
    write(folder.path(), "special_tokens_map.json", &map.to_string());
    assert_eq!(rendered(&config).unwrap(), "<s><other><i>");
    write(folder.path(), "special_tokens_map.json", "[]");
    let error = rendered(&config).unwrap_err().to_string();
    assert!(error.contains("special_tokens_map.json"), "{error}");
    config["added_tokens_decoder"] = json!({});
    assert_eq!(rendered(&config).unwrap(), "</s><i>");
}

#[test]
fn refusals_carry_the_words_of_the_template() {
    let error = render("{% macro no() %}{{ raise_exception('Not\nthis way') }}{% endmacro %}{{ no() }}").unwrap_err();
    assert!(matches!(&error, TemplateError::Refused { message, .. } if message == "Not this way"), "{error}");
    assert_one_line(&error);
}

#[test]
fn limits_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "chat_template.jinja", "{{ 'abc' * 10 }}");
    let small = Limits { output_bytes: 20, ..Limits::default() };
    let load = |limits| ChatTemplate::load_with(folder.path(), limits);
    assert_one_line(&load(small).unwrap().render(&[], &Render::default()).unwrap_err());
    assert_eq!(load(Limits::default()).unwrap().render(&[], &Render::default()).unwrap().len(), 30);
    assert_one_line(&load(Limits { template_bytes: 5, ..Limits::default() }).unwrap_err());
}

#[test]
fn long_conversations_are_within_the_limits() {
    let template = load(
        "{% for message in messages %}{% set content = '<|start|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' %}\
         {% if loop.index0 == 0 %}{% set content = '<|begin|>' + content %}{% endif %}{{ content }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|start|>assistant<|end|>\n\n' }}{% endif %}",
    )
    .unwrap();
    // Nearly a mebibyte, in few long messages and in many short ones.
    for (messages, bytes) in [(100, 10_000), (1_000, 980), (8_000, 80)] {
        let said = |i: usize| message(["user", "assistant"][i % 2], &"word ".repeat(bytes / 5));
        let all: Vec<Value> = (0..messages).map(said).collect();
        let text = template.render(&all, &Render { add_generation_prompt: true, ..Render::default() }).unwrap();
        assert_eq!(text.matches("<|eot|>").count(), messages);
    }
}

#[test]
fn every_rendering_has_all_of_the_limits() {
    let folder = tempfile::tempdir().unwrap();
    // About three fifths of each.
    write(
        folder.path(),
        "chat_template.jinja",
        "{% set ns = namespace(x='') %}{% for i in range(60) %}{% set ns.x = 'abcdefgh' * 25 %}{% endfor %}{{ ns.x | upper | length }}",
    );
    let limits = Limits { memory_bytes: 20_000, work: 5_000, fuel: 1_000, ..Limits::default() };
    let template = ChatTemplate::load_with(folder.path(), limits).unwrap();
    for _ in 0..20 {
        assert_eq!(template.render(&[], &Render::default()).unwrap(), "200");
    }
    for smaller in
        [Limits { memory_bytes: 10_000, ..limits }, Limits { work: 1_000, ..limits }, Limits { fuel: 500, ..limits }]
    {
        let template = ChatTemplate::load_with(folder.path(), smaller).unwrap();
        assert_one_line(&template.render(&[], &Render::default()).unwrap_err());
    }
}

#[test]
fn a_rendering_after_one_that_overran_works() {
    let template = load(
        "{% if how == 'long' %}{% for i in range(60000) %}{% for j in range(60000) %}{% endfor %}{% endfor %}\
         {% elif how == 'deep' %}{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}\
         {% elif how == 'large' %}{{ 'a' * 10**9 }}{% elif how == 'no' %}{{ raise_exception('no') }}{% endif %}{{ how }}",
    );
    let template = template.unwrap();
    let render = |how: &str| {
        let variables = serde_json::Map::from_iter([("how".to_owned(), Value::from(how))]);
        template.render(&[], &Render { variables, ..Render::default() })
    };
    for bad in ["long", "deep", "large", "no", "long", "deep"] {
        assert_eq!(render("well").unwrap(), "well");
        assert_one_line(&render(bad).unwrap_err());
        assert_eq!(render("again").unwrap(), "again");
    }
}

#[test]
fn renderings_side_by_side_are_right() {
    let template =
        load("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ strftime_now('%Y') }}").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            // Clones share what renders.
            let template = template.clone();
            scope.spawn(move || {
                let now = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(thread * 366 * 86_400));
                for i in 0..300 {
                    let content = format!("{thread} says {i} {}", "x".repeat(i % 7));
                    let rendered = template.render(&[message("user", &content)], &Render { now, ..Render::default() });
                    assert_eq!(rendered.unwrap(), format!("user: {content}\n{}", 1970 + thread));
                }
            });
        }
    });
}

#[test]
fn long_conversations_are_fine() {
    let template = load(
        "{% for m in messages %}{% if loop.index0 < messages | length - 1 %}{{ m.role + ': ' + m['content'] | trim }}\n\
         {% endif %}{% endfor %}",
    );
    let messages: Vec<Value> = (0..1000).map(|_| message("user", &"words ".repeat(120))).collect();
    let begin = Instant::now();
    assert_eq!(template.unwrap().render(&messages, &Render::default()).unwrap().len(), 999 * 726);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}
