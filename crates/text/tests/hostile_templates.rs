//! Hostile chat templates end quickly and cheaply.

mod rendering;

use rendering::{assert_one_line, render};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
