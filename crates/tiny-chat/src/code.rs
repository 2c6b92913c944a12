//! Small programs in Python and Rust.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{fill, one, owned};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "code_write", weight: 3.0, write: code_write },
    Kind { name: "code_explain", weight: 1.5, write: code_explain },
    Kind { name: "code_output", weight: 2.0, write: code_output },
];

/// A small function: what it does, in Python, in Rust, in words.
struct Task {
    does: &'static str,
    python: &'static str,
    rust: &'static str,
    words: &'static str,
}

const TASKS: &[Task] = &[
    Task {
        does: "adds {n} to a number",
        python: "def {f}({x}):\n    return {x} + {n}",
        rust: "fn {f}({x}: i32) -> i32 {\n    {x} + {n}\n}",
        words: "The function takes {x}, adds {n} and returns the result.",
    },
    Task {
        does: "multiplies a number by {n}",
        python: "def {f}({x}):\n    return {x} * {n}",
        rust: "fn {f}({x}: i32) -> i32 {\n    {x} * {n}\n}",
        words: "The function takes {x}, multiplies it by {n} and returns the result.",
    },
    Task {
        does: "takes {n} away from a number",
        python: "def {f}({x}):\n    return {x} - {n}",
        rust: "fn {f}({x}: i32) -> i32 {\n    {x} - {n}\n}",
        words: "The function takes {x}, takes away {n} and returns the result.",
    },
    Task {
        does: "prints a word {n} times",
        python: "def {f}({x}):\n    for i in range({n}):\n        print({x})",
        rust: "fn {f}({x}: &str) {\n    for _ in 0..{n} {\n        println!(\"{}\", {x});\n    }\n}",
        words: "The loop runs {n} times and prints {x} each time.",
    },
    Task {
        does: "prints the numbers from 1 to {n}",
        python: "def {f}():\n    for {x} in range(1, {n} + 1):\n        print({x})",
        rust: "fn {f}() {\n    for {x} in 1..={n} {\n        println!(\"{}\", {x});\n    }\n}",
        words: "The loop counts {x} from 1 to {n} and prints each number.",
    },
    Task {
        does: "tells whether a number is greater than {n}",
        python: "def {f}({x}):\n    return {x} > {n}",
        rust: "fn {f}({x}: i32) -> bool {\n    {x} > {n}\n}",
        words: "The function returns true if {x} is greater than {n} and false if not.",
    },
    Task {
        does: "tells whether a number can be divided by {n}",
        python: "def {f}({x}):\n    return {x} % {n} == 0",
        rust: "fn {f}({x}: i32) -> bool {\n    {x} % {n} == 0\n}",
        words: "The remainder of {x} divided by {n} is 0 if it can be divided.",
    },
    Task {
        does: "keeps the numbers of a list that are greater than {n}",
        python: "def {f}(items):\n    return [{x} for {x} in items if {x} > {n}]",
        rust: "fn {f}(items: Vec<i32>) -> Vec<i32> {\n    items.into_iter().filter(|{x}| *{x} > {n}).collect()\n}",
        words: "The function looks at each {x} in the list and keeps it if it is greater than {n}.",
    },
    Task {
        does: "counts how often {n} is in a list",
        python: "def {f}(items):\n    return items.count({n})",
        rust: "fn {f}(items: &[i32]) -> usize {\n    items.iter().filter(|{x}| **{x} == {n}).count()\n}",
        words: "The function goes through the list and counts the items that are {n}.",
    },
    Task {
        does: "adds {n} to each number of a list",
        python: "def {f}(items):\n    return [{x} + {n} for {x} in items]",
        rust: "fn {f}(items: Vec<i32>) -> Vec<i32> {\n    items.into_iter().map(|{x}| {x} + {n}).collect()\n}",
        words: "The function makes a new list in which each {x} is {n} greater.",
    },
    Task {
        does: "counts down from {n} to 1",
        python: "def {f}():\n    {x} = {n}\n    while {x} > 0:\n        print({x})\n        {x} -= 1",
        rust: "fn {f}() {\n    for {x} in (1..={n}).rev() {\n        println!(\"{}\", {x});\n    }\n}",
        words: "The loop starts with {x} at {n} and ends after 1.",
    },
    Task {
        does: "returns the first {n} items of a list",
        python: "def {f}(items):\n    return items[:{n}]",
        rust: "fn {f}(items: &[i32]) -> &[i32] {\n    &items[..{n}]\n}",
        words: "The function cuts the list after {n} items and returns the first part.",
    },
    Task {
        does: "returns the greater of a number and {n}",
        python: "def {f}({x}):\n    if {x} > {n}:\n        return {x}\n    return {n}",
        rust: "fn {f}({x}: i32) -> i32 {\n    if {x} > {n} {\n        {x}\n    } else {\n        {n}\n    }\n}",
        words: "If {x} is greater than {n} the function returns {x}, or else it returns {n}.",
    },
];

const NAMES: &[&str] = &[
    "change",
    "work",
    "run",
    "compute",
    "step",
    "handle",
    "apply",
    "do_it",
    "test",
    "helper",
    "update",
    "process",
    "small_one",
    "my_function",
    "next_one",
    "result_of",
];

const VARIABLES: &[&str] = &["x", "n", "value", "number", "item", "a", "k", "word"];

/// A task with its slots filled: what it does, the fenced code, the words, the language.
struct Snippet {
    does: String,
    fenced: String,
    words: String,
    language: &'static str,
    must: Vec<String>,
    name: &'static str,
}

fn snippet(writer: &mut Writer, kind: &str) -> Snippet {
    let (task, n, name, rust) = writer.operands(kind, |writer| {
        (writer.below(TASKS.len()), writer.between(2, 40).to_string(), writer.pick(NAMES), writer.chance(0.5))
    });
    let variable = writer.pick(VARIABLES);
    let slots = [("f", name), ("n", n.as_str()), ("x", variable)];
    let task = &TASKS[task];
    let (language, tag, code) = if rust { ("Rust", "rust", task.rust) } else { ("Python", "python", task.python) };
    Snippet {
        does: fill(task.does, &slots),
        fenced: format!("```{tag}\n{}\n```", fill(code, &slots)),
        words: fill(task.words, &slots),
        language,
        must: owned(&[name, &n]),
        name,
    }
}

fn code_write(writer: &mut Writer) -> Dialogue {
    let snippet = snippet(writer, "code_write");
    let wording = writer.wording(&[
        "Write a {l} function called {f} that {does}.",
        "I need a function in {l} that {does}. Call it {f}.",
        "Please write {f} in {l}. It {does}.",
        "How do I write a {l} function {f} that {does}?",
        "Can you write a function in {l}? It is called {f} and {does}.",
        "Give me {l} code: a function {f} that {does}.",
        "Show me a {l} function named {f} that {does}.",
        "{l}: write a function {f} that {does}.",
        "My program in {l} needs a function {f} that {does}.",
        "Write code in {l}. The function {f} {does}.",
        "Can you write a {l} function named {f} that {does}?",
        "Please show me a function in {l} called {f} that {does}.",
        "I need {l} code for a function {f} that {does}.",
    ]);
    let slots = [("l", snippet.language), ("f", snippet.name), ("does", snippet.does.as_str())];
    let answer = match writer.below(3) {
        0 => format!("{}\n{}", snippet.fenced, snippet.words),
        1 => format!("Here is the function:\n{}\n{}", snippet.fenced, snippet.words),
        _ => format!("{}\nThis function {}.", snippet.fenced, snippet.does),
    };
    Dialogue::single("code_write", Exchange::checked(fill(wording, &slots), answer, Check::Contains(snippet.must)))
}

fn code_explain(writer: &mut Writer) -> Dialogue {
    let snippet = snippet(writer, "code_explain");
    let wording = writer.wording(&[
        "What does this code do?\n{c}",
        "Please explain this function.\n{c}",
        "I do not understand this {l} code:\n{c}",
        "{c}\nWhat does this function do?",
        "Explain this {l} code to me.\n{c}",
        "Can you tell me what this does?\n{c}",
        "My friend wrote this. What is it for?\n{c}",
        "{c}\nPlease explain.",
        "Here is a function in {l}. What does it do?\n{c}",
        "Tell me in words what this code does.\n{c}",
        "Can you explain this code?\n{c}",
        "What does this {l} function do?\n{c}",
        "{c}\nTell me what this code does.",
    ]);
    let slots = [("l", snippet.language), ("c", snippet.fenced.as_str())];
    let opening = format!("This {} function {}.", snippet.language, snippet.does);
    let answer = if writer.chance(0.5) { format!("{opening} {}", snippet.words) } else { opening };
    let check = Check::Contains(snippet.must[1..].to_vec());
    Dialogue::single("code_explain", Exchange::checked(fill(wording, &slots), answer, check))
}

const WORDS: &[&str] = &[
    "hello",
    "yes",
    "no",
    "good morning",
    "apple",
    "river",
    "tea",
    "the end",
    "ready",
    "stop",
    "go",
    "blue",
    "winter",
    "cat",
    "music",
    "done",
    "welcome",
    "one more",
    "thank you",
    "moon",
];

/// A program and what it prints, line by line.
fn program(writer: &mut Writer) -> (String, Vec<String>) {
    let (a, b, c) = (one(writer, WORDS), one(writer, WORDS), one(writer, WORDS));
    let n = writer.between(2, 6);
    let repeated = |word: &str| vec![word.to_owned(); n as usize];
    match writer.below(8) {
        0 => (format!("print(\"{a}\")"), owned(&[a])),
        1 => (format!("print(\"{a}\")\nprint(\"{b}\")"), owned(&[a, b])),
        2 => (format!("for i in range({n}):\n    print(i)"), (0..n).map(|i| i.to_string()).collect()),
        3 => (format!("for i in range(1, {n} + 1):\n    print(i)"), (1..=n).map(|i| i.to_string()).collect()),
        4 => (format!("for i in range({n}):\n    print(\"{a}\")"), repeated(a)),
        5 => (format!("items = [\"{a}\", \"{b}\", \"{c}\"]\nfor item in items:\n    print(item)"), owned(&[a, b, c])),
        6 => (format!("items = [\"{a}\", \"{b}\", \"{c}\"]\nprint(items[0])"), owned(&[a])),
        _ => (format!("word = \"{a}\"\nother = \"{b}\"\nprint(other)\nprint(word)"), owned(&[b, a])),
    }
}

fn code_output(writer: &mut Writer) -> Dialogue {
    let (code, lines) = writer.operands("code_output", program);
    let wording = writer.wording(&[
        "What does this code print?\n{c}",
        "What is the output of this program?\n{c}",
        "{c}\nWhat will this print?",
        "I run this in Python. What do I see?\n{c}",
        "Tell me the output:\n{c}",
        "Here is a program. What does it print?\n{c}",
        "{c}\nWhat is the output?",
        "Read this Python code and tell me what it prints.\n{c}",
        "If I run this, what comes out?\n{c}",
        "Please tell me what this prints.\n{c}",
        "What does this program print?\n{c}",
        "Tell me what this Python code prints.\n{c}",
        "{c}\nWhat does this code print?",
    ]);
    let fenced = format!("```python\n{code}\n```");
    let opening = if lines.len() == 1 { "It prints this line:" } else { "It prints these lines:" };
    let answer = format!("{opening} {}", lines.join(", "));
    Dialogue::single("code_output", Exchange::checked(fill(wording, &[("c", &fenced)]), answer, Check::List(lines)))
}
