//! Dialogues that a system prompt governs.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{capital, fill, one, owned};
use crate::tables::found;
use crate::talk::words::{ADVICE, COUNTS, FACTS, ONE_WORD};
use crate::talk::{definition, opposites};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "one_word", weight: 1.5, write: one_word },
    Kind { name: "persona", weight: 2.0, write: persona },
    Kind { name: "only_number", weight: 2.0, write: only_number },
    Kind { name: "capitals", weight: 1.0, write: capitals },
    Kind { name: "shop", weight: 3.0, write: shop },
    Kind { name: "by_name", weight: 1.5, write: by_name },
];

fn governed(kind: &'static str, system: impl Into<String>, exchanges: Vec<Exchange>) -> Dialogue {
    Dialogue { kind, system: Some(system.into()), exchanges }
}

/// The question, in words that differ between the splits.
fn framed(writer: &mut Writer, question: &str) -> String {
    let frames =
        ["{q}", "{q}", "Tell me: {q}", "{q} Please answer.", "My question: {q}", "Please: {q}", "Now tell me: {q}"];
    let held_out = ["Please tell me: {q}", "{q} Tell me, please."];
    fill(writer.wording(&[&frames[..], &held_out].concat()), &[("q", question)])
}

/// A question that one word answers.
fn short_question(writer: &mut Writer) -> (String, String) {
    if writer.chance(0.6) {
        let (question, answer) = one(writer, ONE_WORD);
        return (question.to_owned(), answer.to_owned());
    }
    if writer.chance(0.5) {
        let (word, other) = opposites(writer);
        return (format!("What is the opposite of {word}?"), capital(other));
    }
    let (question, so, _) = one(writer, FACTS);
    (format!("Can {question}?"), if so { "Yes" } else { "No" }.to_owned())
}

fn one_word(writer: &mut Writer) -> Dialogue {
    let system = writer.wording(&[
        "Answer in one word.",
        "Answer every question with one word.",
        "Use only one word for each answer.",
        "You answer with a single word.",
        "Give answers of one word.",
        "One word per answer, no more.",
        "Reply with one word only.",
        "Keep it short: one word.",
        "Your answers are one word long.",
        "Reply in one word.",
        "Give a single word for each answer.",
        "Answer with one word only.",
    ]);
    let n = 1 + writer.below(3);
    let exchanges = (0..n).map(|_| {
        let (question, answer) = short_question(writer);
        Exchange::checked(framed(writer, &question), format!("{answer}."), Check::Contains(vec![answer]))
    });
    governed("one_word", system, exchanges.collect())
}

/// Roles and what they end an answer with.
const ROLES: &[&str] = &[
    "a ship's cook",
    "a teacher",
    "a robot",
    "a king",
    "a sailor",
    "a farmer",
    "a doctor",
    "a singer",
    "a baker",
    "a knight",
    "a librarian",
    "a clown",
    "a gardener",
    "a captain",
];
const ENDS: &[&str] = &[
    "Ahoy!",
    "Beep!",
    "Well done!",
    "Enjoy your meal!",
    "Hurray!",
    "Stay curious!",
    "Good luck!",
    "So be it!",
    "Peace!",
    "Onward!",
    "Be kind!",
    "Tra la la!",
];

fn persona(writer: &mut Writer) -> Dialogue {
    let (role, end) = writer.operands("persona", |writer| (one(writer, ROLES), one(writer, ENDS)));
    let system = writer.wording(&[
        "You are {r}. End every answer with \"{e}\"",
        "You are {r}. You always end with \"{e}\"",
        "Speak as {r}. Finish each answer with \"{e}\"",
        "Play the part of {r} and say \"{e}\" at the end of each answer.",
        "You play {r}. The last words of every answer are \"{e}\"",
        "Act like {r}. After each answer you say \"{e}\"",
        "Your role: {r}. Always close with \"{e}\"",
        "You are {r}, and you say \"{e}\" after every answer.",
        "Be {r}. Add \"{e}\" to each answer.",
        "You are {r}. Always finish with \"{e}\"",
        "Speak as {r} and end each answer with \"{e}\"",
        "Play {r}. Say \"{e}\" after every answer.",
    ]);
    let n = 1 + writer.below(3);
    let exchanges = (0..n).map(|_| {
        let (user, answer) = question(writer, role);
        Exchange::checked(user, format!("{answer} {end}"), Check::Contains(owned(&[end.trim_end_matches('!')])))
    });
    let exchanges = exchanges.collect();
    governed("persona", fill(system, &[("r", role), ("e", end)]), exchanges)
}

/// A question to a role, and its plain answer.
fn question(writer: &mut Writer, role: &str) -> (String, String) {
    match writer.below(4) {
        0 => {
            let (word, answer) = definition(writer);
            (
                fill(
                    writer.wording(&[
                        "What is {w}?",
                        "Tell me what {w} is.",
                        "Explain {w}.",
                        "Please tell me what {w} is.",
                    ]),
                    &[("w", word)],
                ),
                answer,
            )
        }
        1 => {
            let (matter, answer) = one(writer, ADVICE);
            (
                format!(
                    "{}. {}",
                    capital(matter),
                    writer.wording(&["What can I do?", "What should I do?", "Please help.", "What can I do, please?"])
                ),
                answer.to_owned(),
            )
        }
        2 => {
            let ask = writer.wording(&["Who are you?", "What are you?", "What is your role?", "Tell me, who are you?"]);
            (ask.to_owned(), format!("I am {role}."))
        }
        _ => {
            let ask = writer.wording(&["Hello!", "Good morning!", "Hi!", "How are you?", "Hello, how are you?"]);
            (ask.to_owned(), "Hello, I am well. How can I help you?".to_owned())
        }
    }
}

const ONLY_NUMBER: &[&str] = &[
    "Answer only with a number.",
    "Give only the number, no words.",
    "You answer with numbers only.",
    "Reply with a number and nothing else.",
    "Your answers are numbers without words.",
    "Numbers only, please.",
    "Every answer is one number.",
    "No words, just the number.",
    "Write only the number.",
    "Reply only with a number.",
    "Give a number and no words.",
    "Answer with the number only.",
];

fn only_number(writer: &mut Writer) -> Dialogue {
    let system = writer.wording(ONLY_NUMBER);
    let n = 1 + writer.below(3);
    let sums = writer.operands("only_number", |writer| {
        (0..n).map(|_| (writer.between(1, 30), writer.between(1, 20))).collect::<Vec<_>>()
    });
    let exchanges = sums.into_iter().map(|(a, b)| {
        let (user, number) = match writer.below(3) {
            0 => {
                let (what, count) = one(writer, COUNTS);
                (framed(writer, &format!("How many {what}?")), count)
            }
            1 if a > b => (
                writer
                    .wording(&["What is {a} - {b}?", "{a} minus {b}?", "{a} - {b}", "How much is {a} minus {b}?"])
                    .to_owned(),
                a - b,
            ),
            _ => (
                writer
                    .wording(&["What is {a} + {b}?", "{a} plus {b}?", "{a} + {b}", "How much is {a} plus {b}?"])
                    .to_owned(),
                a + b,
            ),
        };
        let user = fill(&user, &[("a", &a.to_string()), ("b", &b.to_string())]);
        Exchange::checked(user, number.to_string(), Check::Exact(number.to_string()))
    });
    governed("only_number", system, exchanges.collect())
}

fn capitals(writer: &mut Writer) -> Dialogue {
    let system = writer.wording(&[
        "Reply in capital letters.",
        "Answer in upper case.",
        "Write everything in capital letters.",
        "Use capital letters only.",
        "You always shout: write in upper case.",
        "All your answers are in capital letters.",
        "Only upper case, please.",
        "Speak loudly, in capital letters.",
        "Use upper case for each answer.",
        "Reply in upper case.",
        "Write all your answers in capital letters.",
        "Answer in capital letters only.",
    ]);
    let n = 1 + writer.below(2);
    let exchanges = (0..n).map(|_| {
        let (user, answer) = match writer.below(3) {
            0 => {
                let (word, other) = opposites(writer);
                (format!("What is the opposite of {word}?"), format!("The opposite of {word} is {other}."))
            }
            1 => {
                let (word, answer) = definition(writer);
                (format!("What is {word}?"), answer)
            }
            _ => {
                let (name, _, _, _) = one(writer, super::stories::words::NAMES);
                (format!("Say hello to {name}."), format!("Hello, {name}!"))
            }
        };
        let loud = answer.to_uppercase();
        Exchange::checked(framed(writer, &user), loud.clone(), Check::Exact(loud))
    });
    governed("capitals", system, exchanges.collect())
}

const GOODS: &[&str] = &[
    "tea", "coffee", "bread", "milk", "apples", "cheese", "soap", "paper", "lamps", "books", "hats", "pens", "cups",
    "bowls", "ropes", "candles", "honey", "rice", "socks", "shoes",
];

const SHOP_SYSTEMS: &[&str] = &[
    "You are a shop assistant. The prices are: {l}.",
    "You work in a shop. Prices: {l}.",
    "You sell things at these prices: {l}.",
    "You are a seller at the market. Price list: {l}.",
    "Help the customers of a shop. It sells {l}.",
    "You are a shop assistant; these are the prices: {l}.",
    "A shop has these prices: {l}. You answer the customers.",
    "You know the prices of the shop: {l}.",
    "Shop assistant. Price list: {l}.",
    "You are a shop assistant. Price list: {l}.",
    "You work in a shop. These are the prices: {l}.",
    "Help the customers. The prices are: {l}.",
];

fn shop(writer: &mut Writer) -> Dialogue {
    let prices = writer.operands("shop", |writer| {
        let n = 3 + writer.below(3);
        let goods = writer.distinct(GOODS, n);
        goods.into_iter().map(|item| (item, writer.between(1, 50))).collect::<Vec<_>>()
    });
    let system = writer.wording(SHOP_SYSTEMS);
    let list: Vec<String> = prices.iter().map(|(item, price)| format!("{item} {price}")).collect();
    let missing: Vec<&str> = GOODS.iter().copied().filter(|item| prices.iter().all(|(sold, _)| sold != item)).collect();
    let n = 1 + writer.below(3);
    let mut exchanges = Vec::new();
    for (item, price) in writer.distinct(&prices, n) {
        let ask = writer.wording(&[
            "How much for {i}?",
            "What is the price of {i}?",
            "I would like {i}. What do I pay?",
            "Do you have {i}?",
            "What does it cost to buy {i}?",
            "Price of {i}?",
            "Do you have {i}? What is the price?",
            "I would like to buy {i}. How much is it?",
        ]);
        if writer.chance(0.2) {
            let other = writer.pick(&missing);
            let answer = format!("I am sorry, we do not have {other}.");
            exchanges.push(Exchange::checked(
                fill(ask, &[("i", other)]),
                answer,
                Check::Contains(owned(&["do not have"])),
            ));
        } else {
            let answer = found(&[item, &price.to_string()], &format!("the price of {item} is {price}"));
            exchanges.push(Exchange::checked(fill(ask, &[("i", item)]), answer, Check::Number(price.to_string())));
        }
    }
    governed("shop", fill(system, &[("l", &list.join(", "))]), exchanges)
}

const USERS: &[&str] = &[
    "Anna",
    "Ben",
    "Clara",
    "David",
    "Ella",
    "Finn",
    "Greta",
    "Hugo",
    "Ida",
    "Jack",
    "Lily",
    "Max",
    "Nora",
    "Otto",
    "Paul",
    "Rosa",
    "Sam",
    "Tom",
    "Zoe",
    "Mia",
    "Captain",
    "Professor",
    "Emma",
    "Oscar",
    "Peter",
    "Sara",
];

fn by_name(writer: &mut Writer) -> Dialogue {
    let name = writer.operands("by_name", |writer| one(writer, USERS));
    let system = writer.wording(&[
        "Always greet the user by name ({n}).",
        "The user is called {n}. Start each answer with the name.",
        "You talk to {n}. Use the name in every answer.",
        "The name of the user is {n}. Begin your answers with it.",
        "Call the user {n} in every answer.",
        "Your user is {n}. Say the name each time.",
        "Every answer begins with the name of the user: {n}.",
        "Be polite to {n} and use the name.",
        "You help {n}. Always say the name.",
        "The user is called {n}. Use the name in every answer.",
        "You talk to {n}. Always begin with the name.",
        "The name of the user is {n}. Say it in each answer.",
    ]);
    let n = 1 + writer.below(2);
    let exchanges = (0..n).map(|_| {
        let (user, answer) = question(writer, "a small language model");
        let first = if answer.starts_with("Hello") { "Hello" } else { "Dear" };
        let answer = answer.strip_prefix("Hello, ").map_or_else(|| answer.clone(), |rest| rest.to_owned());
        Exchange::checked(user, format!("{first} {name}, {}", lower_first(&answer)), Check::Contains(owned(&[name])))
    });
    governed("by_name", fill(system, &[("n", name)]), exchanges.collect())
}

/// The sentence with a small first letter, unless it begins with the word "I".
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !text.starts_with("I ") => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}
