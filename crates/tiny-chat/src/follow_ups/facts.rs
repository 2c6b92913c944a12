//! Facts that users tell about themselves and ask for later.

use crate::stories::words::ANIMALS;

const COLOURS: &[&str] =
    &["red", "blue", "green", "yellow", "black", "white", "orange", "purple", "pink", "brown", "grey", "silver"];
/// Cities.
pub(super) const CITIES: &[&str] = &[
    "London", "Paris", "Berlin", "Rome", "Madrid", "Vienna", "Oslo", "Dublin", "Lisbon", "Prague", "Cairo", "Athens",
    "Boston", "Tokyo", "Delhi", "Sydney",
];
const FOODS: &[&str] =
    &["pizza", "soup", "rice", "cheese", "fish", "pasta", "cake", "bread", "honey", "apples", "salad", "stew"];

/// Something that users tell about themselves: how they say it, how it is taken, how they ask for it, the answers.
pub(super) struct Fact {
    pub values: &'static [&'static str],
    pub say: &'static [&'static str],
    pub ask: &'static [&'static str],
    pub answer: &'static [&'static str],
}

/// The facts of the kind `remember`.
pub(super) const FACTS: &[Fact] = &[
    Fact {
        values: &[
            "Anna", "Ben", "Clara", "David", "Ella", "Finn", "Greta", "Hugo", "Ida", "Jack", "Lily", "Max", "Nora",
            "Otto", "Paul", "Rosa", "Sam", "Tom", "Zoe", "Mia",
        ],
        say: &["my name is {v}", "I am {v}", "I am called {v}", "people call me {v}"],
        ask: &["What is my name?", "Do you know my name?", "What am I called?", "Can you tell me my name?"],
        answer: &["Your name is {v}.", "You are {v}.", "You told me that your name is {v}."],
    },
    Fact {
        values: COLOURS,
        say: &[
            "my favourite colour is {v}",
            "I like the colour {v}",
            "the colour I like best is {v}",
            "my best colour is {v}",
        ],
        ask: &[
            "What is my favourite colour?",
            "Which colour do I like?",
            "What colour do I like best?",
            "Which colour do I like best?",
        ],
        answer: &["Your favourite colour is {v}.", "You like {v}.", "It is {v}."],
    },
    Fact {
        values: ANIMALS,
        say: &["my pet is a {v}", "I have a {v} at home", "I live with a {v}", "I have a pet {v}"],
        ask: &["What pet do I have?", "Which animal do I have?", "What is my pet?", "Which pet do I have?"],
        answer: &["You have a {v}.", "Your pet is a {v}.", "It is a {v}."],
    },
    Fact {
        values: CITIES,
        say: &["I live in {v}", "my home is in {v}", "I come from {v}", "my city is {v}"],
        ask: &["Where do I live?", "Which city do I live in?", "Where is my home?", "In which city do I live?"],
        answer: &["You live in {v}.", "Your home is in {v}.", "It is {v}."],
    },
    Fact {
        values: FOODS,
        say: &["I like to eat {v}", "my favourite food is {v}", "I love {v}", "the food I like best is {v}"],
        ask: &[
            "What do I like to eat?",
            "What is my favourite food?",
            "Which food do I love?",
            "Which food do I like to eat?",
        ],
        answer: &["You like to eat {v}.", "Your favourite food is {v}.", "You love {v}."],
    },
];
