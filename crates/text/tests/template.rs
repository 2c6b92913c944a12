//! Chat templates: where they come from, what they may call, and that hostile ones end quickly and cheaply.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use gorgon_text::template::{ChatTemplate, Limits, Render, TemplateError, message};
use serde_json::{Value, json};

/// Counts the bytes in use, to see what a hostile template costs.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system allocator unchanged; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those that the system allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn load(template: &str) -> Result<ChatTemplate, TemplateError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    ChatTemplate::load(folder.path())
}

fn render(template: &str) -> Result<String, TemplateError> {
    render_with(template, json!({}))
}

fn render_with(template: &str, variables: Value) -> Result<String, TemplateError> {
    let messages = [message("user", "Hi <b>&</b> 'you'"), message("assistant", "Grüße 🙂"), message("user", " bye \n")];
    let Value::Object(variables) = variables else { panic!("variables are an object") };
    load(template)?.render(&messages, &Render { variables, ..Render::default() })
}

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

#[test]
fn refusals_carry_the_words_of_the_template() {
    let error = render("{% macro no() %}{{ raise_exception('Not\nthis way') }}{% endmacro %}{{ no() }}").unwrap_err();
    assert!(matches!(&error, TemplateError::Refused { message, .. } if message == "Not this way"), "{error}");
    assert_one_line(&error);
}

#[track_caller]
fn assert_one_line(error: &TemplateError) {
    let message = error.to_string();
    assert!(message.contains("chat_template.jinja") && !message.contains('\n') && message.len() < 600, "{message}");
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

/// Templates that would run for ever or fill the memory.
const HOSTILE: &[(&str, &str)] = &[
    ("recursive macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    (
        "two macros",
        "{% macro f(n) %}{{ g(n) }}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    ),
    (
        "branching macros",
        "{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(45) }}",
    ),
    ("long range", "{% for i in range(10**9) %}x{% endfor %}"),
    (
        "nested loops",
        "{% for i in range(60000) %}{% for j in range(60000) %}{% for k in range(60000) %}{% endfor %}{% endfor %}{% endfor %}",
    ),
    (
        "doubling ~",
        "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
    ),
    (
        "doubling +",
        "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}",
    ),
    (
        "doubling in a line",
        "{% set a = 'x' * 1000 %}{% set b = a ~ a ~ a ~ a %}{% set c = b ~ b ~ b ~ b ~ b ~ b ~ b ~ b %}{% set d = c ~ c ~ c ~ c ~ c ~ c ~ c ~ c ~ c ~ c %}{% set e = d ~ d ~ d ~ d %}{{ e }}",
    ),
    (
        "doubling block",
        "{% set ns = namespace(x='xx') %}{% for i in range(60) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
    ),
    (
        "doubling list",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x | length }}",
    ),
    (
        "shared lists",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "shared maps",
        "{% set ns = namespace(x={}) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
    ),
    (
        "shared lists compared",
        "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% set ns.y = (ns.y, ns.y) %}{% endfor %}{{ ns.x == ns.y }}",
    ),
    ("deep list", "{% set ns = namespace(x=[]) %}{% for i in range(60000) %}{% set ns.x = [ns.x] %}{% endfor %}"),
    (
        "harmless lazy chain",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60000) %}{% set ns.x = ns.x | map('string') %}{% endfor %}{{ ns.x | list }}",
    ),
    (
        "slice chain",
        "{% set ns = namespace(x=[1] * 60000) %}{% for i in range(60000) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x | list }}",
    ),
    ("cyclic namespace", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}"),
    ("cyclic with", "{% set ns = namespace() %}{% with ns.x = ns %}{{ ns }}{% endwith %}"),
    ("cyclic pair", "{% set ns = namespace() %}{% set ns.x, ns.y = ns, ns %}{{ ns }}"),
    ("cyclic for", "{% set ns = namespace() %}{% for ns.x in [ns] %}{{ ns }}{% endfor %}"),
    ("cyclic list", "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}"),
    ("cyclic dict", "{% set ns = namespace() %}{% set ns.x = dict(a=ns) %}{{ ns }}"),
    (
        "loop chain",
        "{% set ns = namespace(p=1) %}{% for i in range(60000) %}{% for y in [ns.p] %}{% set ns.p = loop %}{% endfor %}{% endfor %}",
    ),
    ("repeat", "{{ 'a' * 10**9 }}"),
    ("repeat left", "{{ 10**9 * 'a' }}"),
    ("repeat constant", "{% set x = 'a' * 99999999 ~ 'a' * 99999999 ~ 'a' * 99999999 ~ 'a' * 99999999 %}"),
    ("repeat list", "{{ ([1] * 10**8) | list | length }}"),
    ("repeat nested", "{{ (('ab' * 1000000) * 1000) * 1000 }}"),
    ("join", "{{ (['x' * 100000] * 60000) | join }}"),
    ("join separator", "{{ range(60000) | join('x' * 100000) }}"),
    ("join method", "{{ ('x' * 100000).join(range(60000)) }}"),
    ("replace", "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}"),
    ("replace method", "{{ ('a' * 100000).replace('', 'b' * 100000) }}"),
    ("replace mapped", "{{ (['a' * 100000] * 9) | map('replace', 'a', 'b' * 100000) | list }}"),
    ("replace mapped small", "{{ (['a'] * 60000) | map('replace', 'a', 'b' * 900000) | list | length }}"),
    ("many compared", "{{ range(60000) | select('in', range(60000)) | list | length }}"),
    ("many compared by attribute", "{{ ([{'a': 1}] * 60000) | selectattr('a', 'in', [2] * 60000) | list | length }}"),
    ("many sums", "{{ ([[1] * 60000] * 60000) | sum(start=[]) | length }}"),
    ("many chains", "{{ ([1] * 60000) | chain(*([[1] * 60000] * 60000)) | length }}"),
    ("many defaults", "{{ (['a' * 100000] * 10000) | map('upper') | map('lower') | map('title') | list | length }}"),
    ("indent", "{{ ('\n' * 100000) | indent(1000000) }}"),
    ("indent named", "{{ ('\n' * 100000) | indent(width=9999) }}"),
    ("tojson indent", "{{ [[[1]]] | tojson(indent=10**12) }}"),
    ("format width", "{{ '{:>1000000000}'.format('a') }}"),
    ("format repeats", "{{ ('{0}' * 60000).format('a' * 100000) }}"),
    ("printf width", "{{ '%1000000000d' | format(1) }}"),
    ("printf star", "{{ '%*d' | format(1000000000, 1) }}"),
    ("batch", "{{ [1] | batch(10**9, 'x') | list }}"),
    ("slice", "{{ [1] | slice(10**9, 'x') | list }}"),
    ("round", "{{ 1.5 | round(10**9) }}"),
    (
        "raw text",
        "{% set ns = namespace() %}{% for i in range(60000) %}{% set ns.x %}RAW{% for j in range(60000) %}RAW{% endfor %}{% endset %}{% endfor %}",
    ),
    ("output", "{% for i in range(60000) %}{{ 'x' * 1000 }}{% endfor %}"),
    (
        "many strings",
        "{% set ns = namespace(x=[]) %}{% for i in range(60000) %}{% set ns.x = ns.x + ['x' * 100000] %}{% endfor %}",
    ),
    (
        "string indexing",
        "{% set x = 'x' * 1000000 %}{% for i in range(60000) %}{% if x[999999] == x[-1] %}{% endif %}{% endfor %}",
    ),
    ("string slicing", "{% set x = 'x' * 1000000 %}{% for i in range(60000) %}{% if x[1:] %}{% endif %}{% endfor %}"),
    (
        "string comparing",
        "{% set x = 'x' * 1000000 %}{% set y = 'x' * 1000000 %}{% for i in range(60000) %}{% if x == y and x is not upper %}{% endif %}{% endfor %}",
    ),
    ("argument list", "{% macro f() %}{{ varargs }}{% endmacro %}{{ f(*([1] * 10**7)) }}"),
    (
        "split",
        "{{ ('x' * 1000000).split('') | length }}{{ ('x' * 1000000) | list | length }}{{ ('x' * 1000000) | list | length }}",
    ),
    ("cycle of nothing", "{% for i in [1] %}{{ loop.cycle(*[]) }}{% endfor %}"),
    ("debug", "{{ debug() }}"),
    ("include", "{% include '/etc/passwd' %}"),
    ("unknown filter", "{{ 'a' | nothing }}"),
    ("shadowed check", "{% set settle = 1 %}{% macro admit(x) %}{% endmacro %}{{ 'a' * 10**9 }}"),
];

#[test]
fn hostile_templates_end_quickly_and_cheaply() {
    let long_chain = format!("{{{{ {}1 }}}}", "1 ~ ".repeat(50_000));
    let longest_chain = format!("{{{{ {}1 }}}}", "1~".repeat(131_000));
    let long_elif = format!("{{% if false %}}{}{{% endif %}}", "{% elif false %}".repeat(10_000));
    let long_attributes = format!("{{{{ x{} }}}}", ".a".repeat(100_000));
    let raw_text =
        HOSTILE.iter().find(|(name, _)| *name == "raw text").unwrap().1.replace("RAW", &"raw ".repeat(10_000));
    let long = [
        ("long chain", long_chain.as_str()),
        ("longest chain", &longest_chain),
        ("long elif", &long_elif),
        ("long attributes", &long_attributes),
        ("long raw text", &raw_text),
    ];
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    for (name, template) in HOSTILE.iter().copied().chain(long).chain([("deep", deep.as_str())]) {
        let before = IN_USE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let begin = Instant::now();
        let result = render(template);
        let (took, used) = (begin.elapsed(), PEAK.load(Ordering::Relaxed).saturating_sub(before) >> 20);
        match &result {
            Ok(text) => println!("{name}: {took:.2?}, {used} MiB, fine: {} bytes", text.len()),
            Err(error) => println!("{name}: {took:.2?}, {used} MiB, {error}"),
        }
        assert!(took < Duration::from_secs(10), "{name} took {took:?}");
        assert!(used < 200, "{name} used {used} MiB");
        match result {
            Ok(_) => assert!(name.starts_with("harmless"), "{name} was rendered"),
            Err(error) => assert_one_line(&error),
        }
    }
}
