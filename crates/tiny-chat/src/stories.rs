//! Stories, titles, descriptions and poems.

pub(crate) mod animals;
mod plots;
mod poems;
pub(crate) mod words;

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{capital, fill, one, owned, sentences, with_article};
use crate::writer::Writer;
use animals::{ABOUT_ANIMALS, ABOUT_PLACES};
use words::{ANIMALS, LOOKS, NAMES, NATURES, Name, OBJECTS, PLACES};

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "story", weight: 4.0, write: story },
    Kind { name: "story_hero", weight: 2.0, write: story_hero },
    Kind { name: "story_short", weight: 2.0, write: story_short },
    Kind { name: "story_title", weight: 1.0, write: story_title },
    Kind { name: "describe_animal", weight: 1.5, write: describe_animal },
    Kind { name: "describe_place", weight: 1.0, write: describe_place },
    Kind { name: "poem", weight: 2.0, write: poem },
];

/// Who and what a story is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    /// The hero's name and pronouns.
    pub name: Name,
    /// The hero's animal.
    pub animal: &'static str,
    /// The place and how one is there.
    pub place: (&'static str, &'static str),
    /// The object.
    pub object: &'static str,
}

impl Cast {
    /// Any cast.
    pub(crate) fn draw(writer: &mut Writer) -> Self {
        Self {
            name: one(writer, NAMES),
            animal: one(writer, ANIMALS),
            place: one(writer, PLACES),
            object: one(writer, OBJECTS),
        }
    }

    /// The template with the cast's slots filled in.
    pub(crate) fn fill(&self, template: &str) -> String {
        let (a_animal, a_object, a_place) =
            (with_article(self.animal), with_article(self.object), with_article(self.place.0));
        let slots = [
            ("a_animal", a_animal.as_str()),
            ("animal", self.animal),
            ("a_object", &a_object),
            ("object", self.object),
            ("at", self.place.1),
            ("a_place", &a_place),
            ("place", self.place.0),
            ("name", self.name.0),
        ];
        fill(template, &slots)
    }
}

/// A story about the cast.
pub(crate) fn tell(writer: &mut Writer, cast: &Cast) -> String {
    let plot = &plots::PLOTS[writer.below(plots::PLOTS.len())];
    let love = writer.pick(words::LOVES);
    let parts = [words::OPENINGS, &[love], plot.problem, plot.deed, plot.outcome, words::ENDINGS];
    tell_parts(writer, cast, &parts)
}

fn tell_parts(writer: &mut Writer, cast: &Cast, parts: &[&[&str]]) -> String {
    let friends: Vec<Name> = NAMES.iter().copied().filter(|name| name.0 != cast.name.0).collect();
    let kinds: Vec<&str> = ANIMALS.iter().copied().filter(|&animal| animal != cast.animal).collect();
    let (friend, kind) = (one(writer, &friends), writer.pick(&kinds));
    let object = format!("{} {}", writer.pick(LOOKS), cast.object);
    let (nature, a_object) = (with_article(writer.pick(NATURES)), with_article(&object));
    let text: Vec<&str> = parts.iter().map(|part| writer.pick(part)).collect();
    let slots = [
        ("when", writer.pick(words::WEATHERS)),
        ("n", cast.name.0),
        ("he", cast.name.1),
        ("him", cast.name.2),
        ("his", cast.name.3),
        ("animal", cast.animal),
        ("place", cast.place.1),
        ("a_nature", &nature),
        ("obj", &object),
        ("a_obj", &a_object),
        ("m", friend.0),
        ("fhe", friend.1),
        ("fhim", friend.2),
        ("friend", kind),
    ];
    sentences(&fill(&text.join(" "), &slots))
}

fn story(writer: &mut Writer) -> Dialogue {
    let cast = writer.operands("story", Cast::draw);
    let wording = writer.wording(&[
        "Tell me a story about {a_animal} {at} with {a_object}.",
        "Write a short story about {a_animal} named {name}, {a_object} and the {place}.",
        "Please tell me a story. It should have {a_animal}, {a_object} and {a_place} in it.",
        "I would like a story about {name} the {animal} {at}. There should be {a_object} in it.",
        "Can you write a story with {a_animal}, {a_place} and {a_object}?",
        "Make up a story: the hero is {name} the {animal}, the place is {a_place}, the object is {a_object}.",
        "Story please! Hero: {animal}. Place: {place}. Object: {object}.",
        "Tell a tale of {name}, {a_animal} who lives {at} and has {a_object}.",
        "My child wants to hear about {a_animal} {at} and {a_object}. Tell a story.",
        "Give me a bedtime story about {name} the {animal} and {a_object}. It happens {at}.",
        "Can you tell me a short story about {a_animal} with {a_object} {at}?",
        "Please write a tale about {name} the {animal}, the {place} and {a_object}.",
        "I want a story. The hero should be {a_animal}, and there should be {a_object} and {a_place}.",
    ]);
    let text = tell(writer, &cast);
    let mut must = vec![cast.animal, cast.place.0, cast.object];
    must.extend(wording.contains("{name}").then_some(cast.name.0));
    Dialogue::single("story", Exchange::checked(cast.fill(wording), text, Check::Contains(owned(&must))))
}

fn story_hero(writer: &mut Writer) -> Dialogue {
    let (name, animal) = writer.operands("story_hero", |writer| (one(writer, NAMES), one(writer, ANIMALS)));
    let cast = Cast { name, animal, ..Cast::draw(writer) };
    let wording = writer.wording(&[
        "Tell me a story about {name} the {animal}.",
        "Write a story about {a_animal} named {name}.",
        "I want to hear a story about {a_animal} called {name}.",
        "Can you tell me about {name} the {animal}? A story, please.",
        "Please make up a story whose hero is {name}, {a_animal}.",
        "A bedtime story about {a_animal} named {name}, please.",
        "Do you know a story about {name} the {animal}?",
        "My daughter loves {name} the {animal}. Tell her a story.",
        "Story time! The hero is {a_animal} and the name is {name}.",
        "Tell a tale about {a_animal}. Call it {name}.",
        "Can you write a story about {a_animal} called {name}?",
        "Please tell me a tale about {name} the {animal}.",
        "I would like to hear about {a_animal} named {name}. Make up a story.",
    ]);
    let text = tell(writer, &cast);
    let check = Check::Contains(owned(&[cast.name.0, cast.animal]));
    Dialogue::single("story_hero", Exchange::checked(cast.fill(wording), text, check))
}

fn story_short(writer: &mut Writer) -> Dialogue {
    let cast = writer.operands("story_short", Cast::draw);
    let wording = writer.wording(&[
        "Write a story of two sentences about {a_animal} and {a_object}.",
        "Tell me a story in two sentences with {a_animal} and {a_object}.",
        "Two sentences only: a story about {a_animal} with {a_object}.",
        "A very short story please, just two sentences, about {a_animal} and {a_object}.",
        "Can you tell a story about {a_animal} and {a_object} in two sentences?",
        "I have little time. Tell me about {a_animal} and {a_object} in two sentences.",
        "Give me a tiny story (two sentences) with {a_animal} and {a_object}.",
        "In two sentences, what happened to the {animal} with the {object}?",
        "Make up two sentences about {a_animal} and {a_object}.",
        "Please write two sentences: a story about {a_animal} and {a_object}.",
        "Tell a very short story of two sentences with {a_animal} and {a_object}.",
        "Can you write a tiny story in two sentences about {a_animal} and {a_object}?",
    ]);
    let starts = [
        "{n} the {animal} found {a_obj} {place}.",
        "{when}, {n} the {animal} lost the {obj} {place}.",
        "{n} the {animal} wanted to sell {his} {obj} {place}.",
        "{when}, {n} the {animal} bought {a_obj} {place}.",
        "{n}, {a_nature} {animal}, carried {a_obj} {place}.",
        "{when}, {n} the {animal} broke {a_obj} {place}.",
    ];
    let ends = [
        "{m} the {friend} saw it, and they became friends.",
        "{m} the {friend} came to help, and all was well again.",
        "{m} the {friend} laughed so loudly that {n} had to laugh too.",
        "{he} gave it to {m} the {friend} and went home happy.",
        "{he} met {m} the {friend} there, and they danced until dark.",
        "{m} the {friend} made tea, and they talked about it all night.",
    ];
    let text = tell_parts(writer, &cast, &[&starts, &ends]);
    let check = Check::Contains(owned(&[cast.animal, cast.object]));
    Dialogue::single("story_short", Exchange::checked(cast.fill(wording), text, check))
}

fn story_title(writer: &mut Writer) -> Dialogue {
    let (animal, object) = writer.operands("story_title", |writer| (one(writer, ANIMALS), one(writer, OBJECTS)));
    let cast = Cast { animal, object, ..Cast::draw(writer) };
    let wording = writer.wording(&[
        "Give me a title for a story about {a_animal} and {a_object}.",
        "What could I call my story about {a_animal} with {a_object}?",
        "I wrote a story about {a_animal} and {a_object}. What is a good title?",
        "Find a title for a tale of {a_animal} and {a_object}.",
        "Title please: a story with {a_animal} and {a_object}.",
        "My story has {a_animal} and {a_object} in it. How should I name it?",
        "Think of a name for a book about {a_animal} and {a_object}.",
        "I need a title. The story is about {a_object} and {a_animal}.",
        "Can you name my story about {a_animal} and {a_object}?",
        "What is a good name for a story about {a_animal} and {a_object}?",
        "I need a good title for a tale about {a_animal} with {a_object}.",
        "Please find a title for my book about {a_animal} and {a_object}.",
    ]);
    let nature = capital(writer.pick(NATURES));
    let title = writer.pick(&[
        "The {x} {A} and the {O}",
        "The {A} Who Found a {L} {O}",
        "The {L} {O} of the {x} {A}",
        "{N} the {A} and the {L} {O}",
        "How the {A} Got a {L} {O}",
        "The {A}, the {O} and the {P}",
    ]);
    let (a, o, p) = (capital(animal), capital(object), capital(cast.place.0));
    let look = capital(writer.pick(&["red", "blue", "golden", "silver", "shiny", "green"]));
    let title = fill(title, &[("x", &nature), ("A", &a), ("O", &o), ("L", &look), ("N", cast.name.0), ("P", &p)]);
    let answer = format!("{}\"{title}\"", writer.pick(&["", "You could call it ", "A good title is ", "How about "]));
    let check = Check::Contains(owned(&[animal, object]));
    Dialogue::single("story_title", Exchange::checked(cast.fill(wording), answer, check))
}

fn describe_animal(writer: &mut Writer) -> Dialogue {
    let (name, home, food, looks, does) = one(writer, ABOUT_ANIMALS);
    let wording = writer.wording(&[
        "Tell me about the {t}.",
        "Describe {a}.",
        "What is {a} like?",
        "What do you know about the {t}?",
        "Can you describe {a}?",
        "Please write something about the {t}.",
        "I saw {a} today. What kind of animal is it?",
        "How does {a} live?",
        "What should I know about {a}?",
        "Write a short text about the {t} for my class.",
        "Can you tell me something about {a}?",
        "Please describe the {t} for me.",
        "What kind of animal is {a}?",
    ]);
    let form = writer.pick(&[
        "{a} lives {home}. It eats {food}. It has {looks}, and it {does}.",
        "{a} has {looks}. It lives {home} and eats {food}. It {does}.",
        "{a} is an animal that lives {home}. It has {looks}. It eats {food} and {does}.",
        "the {t} lives {home} and has {looks}. Its food is {food}. It {does}.",
    ]);
    let a = with_article(name);
    let slots = [("a", a.as_str()), ("t", name), ("home", home), ("food", food), ("looks", looks), ("does", does)];
    let check = Check::Contains(owned(&[name, food]));
    let answer = sentences(&fill(form, &slots));
    Dialogue::single("describe_animal", Exchange::checked(fill(wording, &slots), answer, check))
}

fn describe_place(writer: &mut Writer) -> Dialogue {
    let (place, seen, heard, done) = one(writer, ABOUT_PLACES);
    let wording = writer.wording(&[
        "Describe a {t}.",
        "What is a {t} like?",
        "Tell me about a {t}.",
        "What can I see at a {t}?",
        "Please describe a {t} in a few words.",
        "I have never been to a {t}. What is it like?",
        "Paint a picture of a {t} with words.",
        "What can one do at a {t}?",
        "Write a few sentences about a {t}.",
        "Can you describe a {t} to me?",
        "Please tell me what a {t} is like.",
        "What can I see and do at a {t}?",
        "Write a few words about a {t}.",
    ]);
    let form = writer.pick(&[
        "At {p} you can see {seen}. You hear {heard}. It is a good place to {done}.",
        "{p} is a place with {seen}. You can hear {heard} there, and you can {done}.",
        "There are {seen} at {p}. Listen, and you hear {heard}. Many people come to {done}.",
        "Think of {seen}. You hear {heard}. That is {p}. There you can {done}.",
    ]);
    let p = with_article(place);
    let text = wording.replace("a {t}", &p);
    let slots = [("p", p.as_str()), ("t", place), ("seen", seen), ("heard", heard), ("done", done)];
    let check = Check::Contains(owned(&[place]));
    Dialogue::single("describe_place", Exchange::checked(text, sentences(&fill(form, &slots)), check))
}

fn poem(writer: &mut Writer) -> Dialogue {
    let animal = one(writer, ANIMALS);
    let first = writer.below(poems::FIRST.len());
    let wording = writer.wording(&[
        "Write a poem about {a}.",
        "Can you write a short poem about {a}?",
        "Please write four lines that rhyme about {a}.",
        "I would like a poem with {a} in it.",
        "Tell me a rhyme about {a}.",
        "Make a little poem. It should be about {a}.",
        "A poem about {a}, please.",
        "Do you know a poem about {a}?",
        "Four lines about {a}, and they must rhyme!",
        "Write a rhyme for my card. There should be {a} on it.",
        "Can you make a little rhyme about {a}?",
        "Please write a short poem with {a} in it.",
        "I would like four lines about {a} that rhyme.",
    ]);
    let slots = [("a", with_article(animal)), ("t", animal.to_owned())];
    let slots: Vec<(&str, &str)> = slots.iter().map(|(slot, value)| (*slot, value.as_str())).collect();
    let answer = fill(&format!("{}\n{}", poems::FIRST[first], writer.pick(poems::SECOND)), &slots);
    Dialogue::single("poem", Exchange::checked(fill(wording, &slots), answer, Check::Contains(owned(&[animal]))))
}
