//! Dialogues of several turns, whose later turns refer back.

mod facts;

use crate::arithmetic::{add_steps, subtract_steps};
use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{and_list, capital, fill, one, owned};
use crate::stories::words::{ANIMALS, NAMES};
use crate::stories::{Cast, tell};
use crate::tables::found;
use crate::writer::Writer;
use facts::{CITIES, FACTS};

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "remember", weight: 3.0, write: remember },
    Kind { name: "list_edit", weight: 3.0, write: list_edit },
    Kind { name: "sum_chain", weight: 3.0, write: sum_chain },
    Kind { name: "table_lookups", weight: 2.0, write: table_lookups },
    Kind { name: "story_question", weight: 2.0, write: story_question },
    Kind { name: "say_again", weight: 1.5, write: say_again },
];

fn several(kind: &'static str, exchanges: Vec<Exchange>) -> Dialogue {
    Dialogue { kind, system: None, exchanges }
}

/// `a fox` with the right article, after a template that says `a`.
fn articled(text: &str) -> String {
    text.replace(" a owl", " an owl").replace(" a otter", " an otter")
}

fn remember(writer: &mut Writer) -> Dialogue {
    let facts = writer.operands("remember", |writer| {
        let n = 2 + writer.below(2);
        let which: Vec<usize> = (0..FACTS.len()).collect();
        let which = writer.distinct(&which, n);
        which.into_iter().map(|fact| (fact, writer.pick(FACTS[fact].values))).collect::<Vec<_>>()
    });
    let said: Vec<String> =
        facts.iter().map(|(fact, value)| articled(&fill(writer.wording(FACTS[*fact].say), &[("v", value)]))).collect();
    let frame = writer.wording(&[
        "Hello, {s}.",
        "{S}.",
        "Please remember this: {s}.",
        "Hi! {S}.",
        "Let me tell you about myself: {s}.",
        "About me: {s}.",
        "You should know that {s}.",
        "Something about me: {s}.",
        "I will ask you later: {s}.",
        "Hello! {S}.",
        "Hi! Please remember that {s}.",
        "Let me tell you: {s}.",
    ]);
    let told = and_list(&said);
    let values: Vec<&str> = facts.iter().map(|(_, value)| *value).collect();
    let reply =
        writer.pick(&["Thank you, I will remember that: {v}.", "Nice to meet you! I noted: {v}.", "I see: {v}."]);
    let user = fill(frame, &[("s", &told), ("S", &capital(&told))]);
    let mut exchanges = vec![Exchange::open(user, fill(reply, &[("v", &values.join(", "))]))];
    for (fact, value) in writer.distinct(&facts, 2) {
        let answer = articled(&fill(writer.pick(FACTS[fact].answer), &[("v", value)]));
        exchanges.push(Exchange::checked(writer.wording(FACTS[fact].ask), answer, Check::Contains(owned(&[value]))));
    }
    several("remember", exchanges)
}

const GOODS: &[&str] = &[
    "milk", "bread", "eggs", "butter", "cheese", "apples", "pears", "rice", "pasta", "tea", "coffee", "sugar", "salt",
    "fish", "ham", "onions", "carrots", "soap", "paper", "honey", "flour", "oil", "beans", "candles",
];

const LIST_WORDINGS: &[&str] = &[
    "My shopping list: {l}.",
    "Here is my list: {l}.",
    "Please keep this list: {l}.",
    "I need to buy {l}.",
    "Start a list with {l}.",
    "On my list there are {l}.",
    "Remember my list: {l}.",
    "This is what I want to buy: {l}.",
    "Make a list: {l}.",
    "Please start a shopping list with {l}.",
    "Here is what I need to buy: {l}.",
    "Remember this shopping list: {l}.",
];
const ADD_WORDINGS: &[&str] =
    &["Add {x}.", "Please add {x}.", "I also need {x}.", "Put {x} on the list.", "Please add {x} to the list."];
const REMOVE_WORDINGS: &[&str] =
    &["Remove {x}.", "Please take {x} off.", "I do not need {x}.", "Delete {x}.", "Please remove {x}."];
const SHOW_WORDINGS: &[&str] =
    &["What is on my list?", "Show me the list.", "Read me my list.", "What is on the list now?"];

fn list_edit(writer: &mut Writer) -> Dialogue {
    let goods = writer.operands("list_edit", |writer| {
        let n = 4 + writer.below(3);
        writer.distinct(GOODS, n)
    });
    let (new, start) = (goods[0], &goods[1..]);
    let wording = writer.wording(LIST_WORDINGS);
    let mut list: Vec<&str> = start.to_vec();
    let user = fill(wording, &[("l", &list.join(", "))]);
    let mut exchanges = vec![listed(user, &list, writer.pick(&["Your list:", "I noted:", "The list is:"]))];
    let removed = one(writer, start);
    let add = writer.chance(0.6);
    let both = writer.chance(0.5);
    if add || both {
        let ask = writer.wording(ADD_WORDINGS);
        list.push(new);
        exchanges.push(listed(fill(ask, &[("x", new)]), &list, "The list is now:"));
    }
    if !add || both {
        let ask = writer.wording(REMOVE_WORDINGS);
        list.retain(|item| *item != removed);
        exchanges.push(listed(fill(ask, &[("x", removed)]), &list, "The list is now:"));
    }
    if writer.chance(0.6) {
        let ask = writer.wording(SHOW_WORDINGS);
        exchanges.push(listed(ask.to_owned(), &list, writer.pick(&["Your list:", "The list is:"])));
    }
    several("list_edit", exchanges)
}

fn listed(user: String, list: &[&str], opening: &str) -> Exchange {
    Exchange::checked(user, format!("{opening} {}", list.join(", ")), Check::List(owned(list)))
}

const SUM_WORDINGS: &[&str] = &[
    "What is {a} + {b}?",
    "Add {a} and {b}.",
    "{a} + {b}?",
    "How much is {a} plus {b}?",
    "Please add {b} to {a}.",
    "Compute {a} + {b}.",
    "What do you get for {a} plus {b}?",
    "Give me the sum of {a} and {b}.",
    "I have {a} and get {b} more. How many is that?",
    "What is the sum of {a} and {b}?",
    "Please add {a} and {b}.",
    "How much is {a} + {b}?",
];

fn sum_chain(writer: &mut Writer) -> Dialogue {
    let (a, b, steps) = writer.operands("sum_chain", |writer| {
        let n = 1 + writer.below(3);
        let steps: Vec<(i64, bool)> = (0..n).map(|_| (writer.between(1, 20), writer.chance(0.65))).collect();
        (writer.between(2, 60), writer.between(2, 40), steps)
    });
    let wording = writer.wording(SUM_WORDINGS);
    let user = fill(wording, &[("a", &a.to_string()), ("b", &b.to_string())]);
    let mut total = a + b;
    let mut exchanges = vec![summed(user, add_steps(a, b), total)];
    for (step, plus) in steps {
        let plus = plus || step > total;
        let ask = if plus {
            writer.wording(&["Add {x} to that.", "Now add {x}.", "And {x} more?", "Plus {x}?", "Now add {x} to that."])
        } else {
            writer.wording(&[
                "Take {x} away from that.",
                "Now subtract {x}.",
                "Minus {x}?",
                "And {x} less?",
                "Now take {x} away.",
            ])
        };
        let line = if plus { add_steps(total, step) } else { subtract_steps(total, step) };
        total += if plus { step } else { -step };
        exchanges.push(summed(fill(ask, &[("x", &step.to_string())]), line, total));
    }
    several("sum_chain", exchanges)
}

fn summed(user: String, steps: String, total: i64) -> Exchange {
    Exchange::checked(user, steps, Check::number(total))
}

const TABLE_WORDINGS: &[&str] = &[
    "Here is a table of prices.",
    "This table shows what things cost.",
    "These are my prices:",
    "Look at this table, I have some questions.",
    "Please read this table.",
    "Prices in my shop:",
    "A table with prices follows.",
    "I will ask you about this table.",
    "Keep this table in mind.",
    "Look at this table of prices.",
    "Here are the prices in my shop:",
    "Please read this. I will ask you about the prices.",
];

fn table_lookups(writer: &mut Writer) -> Dialogue {
    let rows = writer.operands("table_lookups", |writer| {
        let n = 3 + writer.below(3);
        let goods = writer.distinct(GOODS, n);
        goods.into_iter().map(|item| (item, writer.between(1, 30))).collect::<Vec<_>>()
    });
    let wording = writer.wording(TABLE_WORDINGS);
    let lines: Vec<String> = rows.iter().map(|(item, price)| format!("| {item} | {price} |")).collect();
    let user = format!("{wording}\n| item | price |\n| --- | --- |\n{}", lines.join("\n"));
    let reply = writer.pick(&[
        "I have read the table. What do you want to know?",
        "Thank you. What is your question?",
        "I see a table with {n} rows. What would you like to know?",
    ]);
    let mut exchanges = vec![Exchange::open(user, fill(reply, &[("n", &rows.len().to_string())]))];
    let n = 2 + writer.below(2);
    for (item, price) in writer.distinct(&rows, n) {
        let ask = writer.wording(&[
            "What is the price of {i}?",
            "How much do I pay for {i}?",
            "What about {i}?",
            "And {i}?",
            "Price of {i}?",
            "What does the table say about {i}?",
            "How much do I pay for {i}, please?",
            "And the price of {i}?",
        ]);
        let answer = found(&[item, &price.to_string()], &format!("the price of {item} is {price}"));
        exchanges.push(Exchange::checked(fill(ask, &[("i", item)]), answer, Check::Number(price.to_string())));
    }
    several("table_lookups", exchanges)
}

const STORY_WORDINGS: &[&str] = &[
    "Tell me a story about {a_animal} {at} with {a_object}.",
    "I want to hear a story with {a_animal}, {a_object} and the {place}.",
    "A story please: {a_animal} {at} and {a_object}.",
    "Make up a story about {a_animal} who has {a_object} and lives {at}.",
    "Write a story about {a_animal} and {a_object}. It happens {at}.",
    "Do you know a story about {a_animal} with {a_object} {at}?",
    "Tell us a story. We like {a_animal}, {a_object} and the {place}.",
    "Story: {animal}, {object}, {place}.",
    "Can I hear a story about {a_object} and {a_animal} {at}?",
    "I want a story about {a_animal} {at} and {a_object}, please.",
    "Can I hear a story? I like {a_animal}, {a_object} and the {place}.",
    "Tell me a story with {a_animal} and {a_object}. It happens {at}.",
];

fn story_question(writer: &mut Writer) -> Dialogue {
    let cast = writer.operands("story_question", Cast::draw);
    let wording = writer.wording(STORY_WORDINGS);
    let check = Check::Contains(owned(&[cast.animal, cast.place.0, cast.object]));
    let mut exchanges = vec![Exchange::checked(cast.fill(wording), tell(writer, &cast), check)];
    let hero = [
        "What is the name of the hero?",
        "What was the {animal} called?",
        "Who is the hero?",
        "What is the {animal} called?",
    ];
    let place = [
        "Where did {name} live?",
        "Where was the home of {name}?",
        "Where does {name} live?",
        "Where did the {animal} live?",
    ];
    let kind = [
        "What animal is {name}?",
        "What kind of animal was {name}?",
        "Is {name} a person?",
        "What kind of animal is {name}?",
    ];
    let asked = [
        (hero, "The hero is {name}, {a_animal}.", cast.name.0),
        (place, "{name} lived {at}.", cast.place.0),
        (kind, "{name} is {a_animal}.", cast.animal),
    ];
    let n = 1 + writer.below(2);
    for (wordings, answer, word) in writer.distinct(&asked, n) {
        let ask = cast.fill(writer.wording(&wordings));
        exchanges.push(Exchange::checked(ask, cast.fill(answer), Check::Contains(owned(&[word]))));
    }
    several("story_question", exchanges)
}

const SENTENCE_WORDINGS: &[&str] = &[
    "Write a sentence about {n}, {p} and a {t}.",
    "Make one sentence with {n}, a {t} and {p}.",
    "One sentence please, with {n}, {p} and a {t}.",
    "Can you make a sentence from {n}, a {t} and {p}?",
    "Say something about {n} in {p} with a {t}.",
    "I need a sentence with the words {n}, {t} and {p}.",
    "Use {n}, {t} and {p} in a sentence.",
    "Write one line about {n} from {p} and a {t}.",
    "Give me a sentence: {n}, {t}, {p}.",
    "Make a sentence about {n}, {p} and a {t}.",
    "Write one sentence with the words {n}, {t} and {p}.",
    "Can you write a sentence with {n}, a {t} and {p}?",
];

fn say_again(writer: &mut Writer) -> Dialogue {
    let (name, animal, place) =
        writer.operands("say_again", |writer| (one(writer, NAMES).0, one(writer, ANIMALS), one(writer, CITIES)));
    let wording = writer.wording(SENTENCE_WORDINGS);
    let slots = [("n", name), ("t", animal), ("p", place)];
    let long = writer.pick(&[
        "{n} took a {t} to {p}, and everyone was happy.",
        "{n} went to {p} by train and met a {t} on the way.",
        "in {p}, {n} saw a {t}, and the sun was warm.",
        "{n} came from {p} with a {t}, and they were friends.",
    ]);
    let long = capital(&articled(&fill(long, &slots)));
    let must = Check::Contains(owned(&[name, animal, place]));
    let mut exchanges = vec![Exchange::checked(articled(&fill(wording, &slots)), long.clone(), must)];
    let upper = [
        "Say it again in upper case.",
        "Now in capital letters.",
        "Write that in upper case.",
        "Please say that in capital letters.",
    ];
    let lower = [
        "Say it again in lower case.",
        "Now in small letters.",
        "Write that in lower case.",
        "Please say that in small letters.",
    ];
    let again = ["Say that again.", "Please repeat that.", "Once more, please.", "Please say that again."];
    let (wordings, answer) = match writer.below(3) {
        0 => (upper, long.to_uppercase()),
        1 => (lower, long.to_lowercase()),
        _ => (again, long),
    };
    exchanges.push(Exchange::checked(writer.wording(&wordings), answer.clone(), Check::Exact(answer)));
    several("say_again", exchanges)
}
