//! Small talk, common knowledge, and what lies outside it.

pub(crate) mod words;

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{capital, fill, one, owned};
use crate::writer::Writer;
use words::{ADVICE, CANNOT, FACTS, GLOSSARY, OPPOSITES, SYNONYMS, UNKNOWN};

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "greeting", weight: 1.0, write: greeting },
    Kind { name: "how_are_you", weight: 0.7, write: how_are_you },
    Kind { name: "thanks", weight: 0.5, write: thanks },
    Kind { name: "goodbye", weight: 0.5, write: goodbye },
    Kind { name: "who_are_you", weight: 1.0, write: who_are_you },
    Kind { name: "what_can_you_do", weight: 1.0, write: what_can_you_do },
    Kind { name: "advice", weight: 1.5, write: advice },
    Kind { name: "glossary", weight: 2.0, write: glossary },
    Kind { name: "opposite", weight: 1.0, write: opposite },
    Kind { name: "synonym", weight: 1.0, write: synonym },
    Kind { name: "yes_or_no", weight: 1.0, write: yes_or_no },
    Kind { name: "cannot", weight: 1.5, write: cannot },
    Kind { name: "unknown", weight: 2.0, write: unknown },
];

/// List of the assistant's abilities.
const ABILITIES: &str = "sums, lists, tables, stories and recipes";

fn small(writer: &mut Writer, kind: &'static str, wordings: &[&str], answers: &[&str]) -> Dialogue {
    let user = writer.wording(wordings);
    Dialogue::single(kind, Exchange::open(user, fill(writer.pick(answers), &[("able", ABILITIES)])))
}

fn greeting(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "Hello",
        "Hello!",
        "Hi",
        "Hi!",
        "Hi there!",
        "Good morning!",
        "Good evening!",
        "Good afternoon!",
        "Hey",
        "hello",
        "hi",
        "Hello, are you there?",
        "Hi, can you help me?",
        "Good day!",
        "Hey there!",
        "Good morning",
        "Hello there!",
        "Good evening",
        "Hi, are you there?",
        "hello there",
    ];
    let answers = [
        "Hello! How can I help you?",
        "Hello! What can I do for you today?",
        "Hi! I am glad to see you. What shall we do?",
        "Good to see you! Ask me for a sum, a list, a story or a recipe.",
        "Hello! I can help with {able}. What would you like?",
        "Hi there! Would you like to hear a story?",
    ];
    small(writer, "greeting", &wordings, &answers)
}

fn how_are_you(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "How are you?",
        "How are you today?",
        "Hello, how are you?",
        "Hi! How are you?",
        "How do you feel?",
        "How is it going?",
        "Are you well?",
        "Are you happy?",
        "How do you do?",
        "Is everything all right?",
        "How do you feel today?",
        "Hi, how is it going?",
        "Hello! Are you well today?",
    ];
    let answers = [
        "I am well, thank you. How are you?",
        "I am fine, thank you. What can I do for you?",
        "Very well, thank you! I am only a small model, but I like to help.",
        "All is well here. How can I help you today?",
        "I am fine and ready to work. What would you like to do?",
    ];
    small(writer, "how_are_you", &wordings, &answers)
}

fn thanks(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "Thank you!",
        "Thanks!",
        "Thank you very much.",
        "Thanks a lot!",
        "Thank you for your help.",
        "That was helpful.",
        "Great, thank you!",
        "Well done!",
        "Good work!",
        "Very good, thanks.",
        "Thank you, that was very good.",
        "Great, thanks a lot!",
        "Thanks for your help!",
    ];
    let answers = [
        "You are welcome!",
        "You are welcome. Ask me again at any time.",
        "I am glad that I could help.",
        "With pleasure! Is there anything else?",
        "Thank you for the kind words. What is next?",
    ];
    small(writer, "thanks", &wordings, &answers)
}

fn goodbye(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "Goodbye!",
        "Bye!",
        "Bye",
        "See you later!",
        "See you tomorrow.",
        "Good night!",
        "I have to go now.",
        "That is all for today.",
        "I am going to bed.",
        "Until next time!",
        "Bye, see you tomorrow!",
        "Goodbye, I have to go now.",
        "That is all. Good night!",
    ];
    let answers = [
        "Goodbye! Have a good day.",
        "See you soon!",
        "Goodbye, and take care.",
        "Bye! It was nice to talk to you.",
        "Until next time! I will be here.",
    ];
    small(writer, "goodbye", &wordings, &answers)
}

fn who_are_you(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "Who are you?",
        "What are you?",
        "What is your name?",
        "Tell me about yourself.",
        "Are you a person?",
        "Are you a robot?",
        "Who made you?",
        "How were you made?",
        "What kind of model are you?",
        "Do you have a name?",
        "What should I call you?",
        "Are you a human?",
        "Hello, who are you?",
        "Tell me who you are.",
        "What kind of robot are you?",
        "Do you have a name? Who are you?",
    ];
    let answers = [
        "I am Gorgon's tiny model, a small language model trained on made-up conversations.",
        "My name is Gorgon's tiny model. I am a small language model, not a person.",
        "I am a small language model. The Gorgon project trained me on made-up conversations.",
        "I am a tiny language model from the Gorgon project. I can help with {able}.",
    ];
    small(writer, "who_are_you", &wordings, &answers)
}

fn what_can_you_do(writer: &mut Writer) -> Dialogue {
    let wordings = [
        "What can you do?",
        "What can you help me with?",
        "How can you help me?",
        "What are you good at?",
        "What do you know?",
        "What should I ask you?",
        "Can you help me?",
        "What can I ask you?",
        "Help",
        "I do not know what to ask.",
        "Show me what you can do.",
        "What are you for?",
        "What things can you do?",
        "Tell me what you can do.",
        "What can you help with?",
        "Can you show me what you can do?",
    ];
    let answers = [
        "I can help with {able}. I can also write small programs.",
        "I am small, but I can do a few things: {able}. What would you like?",
        "Ask me about {able}. I can also sort your agenda or write a poem.",
        "You can ask me for a story, a sum, a recipe or a shopping list. I can also explain simple words.",
    ];
    small(writer, "what_can_you_do", &wordings, &answers)
}

fn advice(writer: &mut Writer) -> Dialogue {
    let (matter, answer) = one(writer, ADVICE);
    let wording = writer.wording(&[
        "{M}. What can I do?",
        "{M}. What should I do?",
        "What can I do? {M}.",
        "{M}. Do you have any advice?",
        "Please give me some advice: {m}.",
        "Can you help me? {M}.",
        "I need advice. {M}.",
        "Give me some advice. {M}.",
        "{M}. Please help.",
        "My problem is that {m}.",
        "Please help me. {M}.",
        "{M}. Can you give me some advice?",
        "I need some advice: {m}. What should I do?",
    ]);
    let user = fill(wording, &[("M", &capital(matter)), ("m", matter)]);
    let end = writer.pick(&["", "", " I hope this helps.", " Good luck!"]);
    Dialogue::single("advice", Exchange::open(user, format!("{answer}{end}")))
}

/// A word of the glossary and a sentence that explains it.
pub(crate) fn definition(writer: &mut Writer) -> (&'static str, String) {
    let (word, meaning) = one(writer, GLOSSARY);
    (word, format!("{} is {meaning}.", capital(word)))
}

fn glossary(writer: &mut Writer) -> Dialogue {
    let (word, answer) = definition(writer);
    let meaning = answer.split_once(" is ").map_or("", |(_, meaning)| meaning.trim_end_matches('.'));
    let wording = writer.wording(&[
        "What is {w}?",
        "Explain what {w} is.",
        "What does {b} mean?",
        "Tell me what {w} is.",
        "Do you know what {w} is?",
        "Please explain the word {b}.",
        "My child asks what {w} is.",
        "Can you say in one sentence what {w} is?",
        "I do not know the word {b}. What does it mean?",
        "How would you explain {w}?",
        "what is {w}",
        "Please tell me what {w} is.",
        "Can you explain what {w} is?",
        "What does the word {b} mean?",
    ]);
    let bare = word.split(' ').next_back().unwrap_or(word);
    let check = Check::Contains(owned(&[meaning]));
    let user = fill(wording, &[("w", word), ("b", bare)]);
    Dialogue::single("glossary", Exchange::checked(user, answer, check))
}

fn opposite(writer: &mut Writer) -> Dialogue {
    let (word, other) = opposites(writer);
    let wording = writer.wording(&[
        "What is the opposite of {w}?",
        "Tell me the opposite of {w}.",
        "Which word is the opposite of {w}?",
        "{w} - what is the opposite?",
        "Give me the opposite of the word {w}.",
        "Do you know the opposite of {w}?",
        "I need a word that means the opposite of {w}.",
        "If it is not {w}, what is it? Give the opposite.",
        "Opposite of {w}?",
        "Please name the opposite of {w}.",
        "Please tell me the opposite of {w}.",
        "What word is the opposite of {w}?",
        "Can you name the opposite of the word {w}?",
    ]);
    let form = "The opposite of {w} is {o}.";
    let slots = [("w", word), ("o", other)];
    let check = Check::Contains(owned(&[other]));
    Dialogue::single("opposite", Exchange::checked(fill(wording, &slots), fill(form, &slots), check))
}

/// A word and its opposite.
pub(crate) fn opposites(writer: &mut Writer) -> (&'static str, &'static str) {
    let (a, b) = one(writer, OPPOSITES);
    if writer.chance(0.5) { (a, b) } else { (b, a) }
}

fn synonym(writer: &mut Writer) -> Dialogue {
    let (word, other) = one(writer, SYNONYMS);
    let wording = writer.wording(&[
        "What is another word for {w}?",
        "Give me a synonym of {w}.",
        "Which word means the same as {w}?",
        "Tell me another word for {w}.",
        "I need a word that means the same as {w}.",
        "How else can I say {w}?",
        "Is there another word for {w}?",
        "Synonym of {w}?",
        "Please give me a different word for {w}.",
        "Do you know a word like {w}?",
        "Can you tell me another word for {w}?",
        "Please give me a word that means the same as {w}.",
        "Do you know a synonym of {w}?",
    ]);
    let form = writer.pick(&["Another word for {w} is {o}.", "You can say {o}.", "{W} means almost the same as {o}."]);
    let slots = [("w", word), ("o", other), ("W", &capital(word))];
    let check = Check::Contains(owned(&[other]));
    Dialogue::single("synonym", Exchange::checked(fill(wording, &slots), fill(form, &slots), check))
}

fn yes_or_no(writer: &mut Writer) -> Dialogue {
    let (question, so, reason) = one(writer, FACTS);
    let wording = writer.wording(&[
        "Can {q}?",
        "can {q}",
        "I would like to know: can {q}?",
        "Yes or no: can {q}?",
        "Tell me, can {q}?",
        "Do you know: can {q}?",
        "I ask myself: can {q}?",
        "My friend asks: can {q}?",
        "Can {q}? Yes or no?",
        "Quick question: can {q}?",
        "Please tell me: can {q}?",
        "Do you know? Can {q}?",
        "My question: can {q}? Yes or no?",
    ]);
    let word = if so { "Yes" } else { "No" };
    let check = Check::Contains(owned(&[word]));
    Dialogue::single(
        "yes_or_no",
        Exchange::checked(fill(wording, &[("q", question)]), format!("{word}, {reason}."), check),
    )
}

fn cannot(writer: &mut Writer) -> Dialogue {
    let (question, ability) = one(writer, CANNOT);
    let wording = writer.wording(&[
        "Tell me {q}.",
        "Do you know {q}?",
        "Can you tell me {q}?",
        "I want to know {q}.",
        "Please tell me {q}.",
        "Find out {q}, please.",
        "I would like to know {q}.",
        "Say, do you know {q}?",
        "I need to know {q}.",
        "Could you find out {q}?",
        "Can you find out {q}?",
        "Hello, do you know {q}?",
        "Please, I need to know {q}. Can you tell me?",
    ]);
    let form = writer.pick(&[
        "I am sorry, but I cannot {a}. I can help with {able}.",
        "I cannot {a}. Is there something else that I can do for you?",
        "Sorry, I am a small language model and cannot {a}.",
        "That is not possible, for I cannot {a}. Ask me for {able} instead.",
    ]);
    let answer = fill(form, &[("a", ability), ("able", ABILITIES)]);
    let check = Check::Contains(owned(&["cannot"]));
    Dialogue::single("cannot", Exchange::checked(fill(wording, &[("q", question)]), answer, check))
}

fn unknown(writer: &mut Writer) -> Dialogue {
    let topic = writer.operands("unknown", |writer| one(writer, UNKNOWN));
    let wording = writer.wording(&[
        "Tell me about {t}.",
        "What do you know about {t}?",
        "Explain {t} to me.",
        "I have a question about {t}.",
        "Can you explain {t}?",
        "I want to learn something about {t}.",
        "What can you tell me about {t}?",
        "Write a text about {t}.",
        "How does it work with {t}?",
        "I need help with {t}.",
        "Why is everyone talking about {t}?",
        "Give me some facts about {t}.",
        "Can you tell me something about {t}?",
        "I want some facts about {t}.",
        "What do I need to know about {t}?",
        "Please explain {t}.",
    ]);
    let answer = writer.pick(&[
        "I do not know about that. I can help with {able}.",
        "I do not know much about {t}. I can help with {able}.",
        "I am sorry, I do not know about {t}. I can help with {able}.",
    ]);
    let slots = [("t", topic), ("able", ABILITIES)];
    let check = Check::Contains(owned(&["do not know"]));
    Dialogue::single("unknown", Exchange::checked(fill(wording, &slots), fill(answer, &slots), check))
}
