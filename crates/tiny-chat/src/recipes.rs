//! Recipes, shopping lists and cooking times.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::phrase::{and_list, capital, fill, one, owned, with_article};
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "recipe", weight: 3.0, write: recipe },
    Kind { name: "shopping_list", weight: 1.5, write: shopping_list },
    Kind { name: "cooking_time", weight: 1.0, write: cooking_time },
];

/// A dish that takes three ingredients of the user's choice.
struct Dish {
    name: &'static str,
    /// Ingredients that are always needed.
    base: &'static [&'static str],
    /// Ingredients that the user can choose from.
    choice: &'static [&'static str],
    /// Its steps, with `{x}`, `{y}` and `{z}` for the ingredients chosen and `{n}` for minutes.
    steps: &'static [&'static [&'static str]],
}

const VEGETABLES: &[&str] =
    &["carrots", "onions", "beans", "potatoes", "peas", "tomatoes", "mushrooms", "peppers", "leeks", "beets"];
const FRUITS: &[&str] =
    &["apples", "pears", "bananas", "berries", "cherries", "grapes", "oranges", "plums", "peaches", "figs"];
const FILLINGS: &[&str] = &["cheese", "ham", "tomatoes", "eggs", "lettuce", "fish", "beans", "onions", "pickles"];

const DISHES: &[Dish] = &[
    Dish {
        name: "soup",
        base: &["water", "salt"],
        choice: VEGETABLES,
        steps: &[
            &["Wash and cut the {x}, {y} and {z}.", "Cut the {x}, {y} and {z} into small pieces."],
            &["Boil the water and add the salt.", "Heat the water with the salt in a big pot."],
            &["Add the {x} and cook for {n} minutes.", "Put in the {x} first and wait {n} minutes."],
            &["Add the {y} and {z} and cook until soft.", "Add the {y} and {z} and stir."],
            &["Serve hot.", "Serve the soup hot."],
        ],
    },
    Dish {
        name: "salad",
        base: &["oil", "vinegar"],
        choice: VEGETABLES,
        steps: &[
            &["Wash the {x}, {y} and {z}.", "Wash the {x} and {y}, and cook the {z}."],
            &["Cut the {x} and {y} into slices.", "Cut everything into small pieces."],
            &["Mix the {x}, {y} and {z} in a bowl.", "Put the {x}, {y} and {z} into a big bowl."],
            &[
                "Add the oil and vinegar and wait {n} minutes.",
                "Pour oil and vinegar over it and let it rest {n} minutes.",
            ],
        ],
    },
    Dish {
        name: "stew",
        base: &["oil", "water", "salt"],
        choice: VEGETABLES,
        steps: &[
            &["Cut the {x}, {y} and {z} into big pieces.", "Wash and cut the {x}, {y} and {z}."],
            &["Heat the oil in a pot and fry the {x}.", "Fry the {x} in oil until brown."],
            &["Add the {y}, the {z}, the water and the salt.", "Add the water, the salt, the {y} and the {z}."],
            &["Cook slowly for {n} minutes.", "Put on the lid and cook for {n} minutes."],
            &["Serve with bread.", "Serve hot."],
        ],
    },
    Dish {
        name: "omelette",
        base: &["eggs", "butter", "salt"],
        choice: &["cheese", "ham", "mushrooms", "tomatoes", "onions", "peppers", "peas", "potatoes"],
        steps: &[
            &["Beat the eggs with the salt.", "Mix the eggs and the salt in a bowl."],
            &["Cut the {x}, {y} and {z} into small pieces.", "Cut the {x}, {y} and {z}."],
            &["Melt the butter and fry the {x} and {y}.", "Fry the {x} and {y} in butter."],
            &[
                "Pour in the eggs, add the {z} and cook for {n} minutes.",
                "Add the eggs and the {z} and wait {n} minutes.",
            ],
            &["Fold it and serve.", "Turn it over and serve hot."],
        ],
    },
    Dish {
        name: "sandwich",
        base: &["bread", "butter"],
        choice: FILLINGS,
        steps: &[
            &["Cut two slices of bread and butter them.", "Put butter on two slices of bread."],
            &["Put the {x} on the first slice.", "Lay the {x} on the bread."],
            &["Add the {y} and {z}.", "Put the {y} and {z} on top."],
            &["Close the sandwich and cut it in half.", "Put the second slice on top and serve."],
        ],
    },
    Dish {
        name: "fruit salad",
        base: &["sugar", "lemon juice"],
        choice: FRUITS,
        steps: &[
            &["Wash the {x}, {y} and {z}.", "Wash and dry the {x}, {y} and {z}."],
            &["Cut everything into small pieces.", "Cut the {x}, {y} and {z} into pieces."],
            &["Mix it with sugar and lemon juice.", "Add the sugar and the lemon juice and stir."],
            &["Let it cool for {n} minutes and serve.", "Wait {n} minutes and serve cold."],
        ],
    },
    Dish {
        name: "cake",
        base: &["flour", "sugar", "eggs", "butter"],
        choice: FRUITS,
        steps: &[
            &["Mix the flour, sugar, eggs and butter.", "Stir the butter, sugar and eggs, then add the flour."],
            &["Cut the {x}, {y} and {z} into pieces.", "Wash and cut the {x}, {y} and {z}."],
            &["Add the {x} and {y} and pour it into a tin.", "Stir in the {x} and {y} and fill a tin."],
            &["Put the {z} on top.", "Lay the {z} on top of the cake."],
            &["Bake for {n} minutes.", "Bake for {n} minutes and let it cool."],
        ],
    },
    Dish {
        name: "rice bowl",
        base: &["rice", "water", "oil"],
        choice: VEGETABLES,
        steps: &[
            &["Cook the rice in the water for {n} minutes.", "Boil the rice in water for {n} minutes."],
            &["Cut the {x}, {y} and {z} into thin slices.", "Wash and cut the {x}, {y} and {z}."],
            &["Fry the {x} and {y} in oil.", "Heat the oil and fry the {x} and {y}."],
            &["Put the {z} on the rice with everything else.", "Put it all on the rice and add the {z}."],
        ],
    },
    Dish {
        name: "pie",
        base: &["flour", "butter", "water"],
        choice: &["apples", "cherries", "plums", "potatoes", "leeks", "onions", "cheese", "ham", "mushrooms"],
        steps: &[
            &["Make a dough from the flour, butter and water.", "Mix flour, butter and water into a dough."],
            &["Put the dough into a round tin.", "Roll out the dough and lay it in a tin."],
            &["Fill it with the {x} and {y}.", "Put in the {x} and {y}."],
            &["Add the {z} on top.", "Cover it with the {z}."],
            &["Bake for {n} minutes.", "Bake until brown, about {n} minutes."],
        ],
    },
    Dish {
        name: "pasta",
        base: &["pasta", "water", "salt", "oil"],
        choice: &["tomatoes", "onions", "mushrooms", "peppers", "peas", "cheese", "ham", "fish", "beans"],
        steps: &[
            &["Boil the water with the salt and cook the pasta.", "Cook the pasta in water with salt."],
            &["Cut the {x}, {y} and {z}.", "Cut the {x} and {y} into small pieces."],
            &["Fry the {x} and {y} in oil for {n} minutes.", "Heat the oil and fry the {x} and {y} for {n} minutes."],
            &["Mix the pasta with the sauce and add the {z}.", "Add the pasta and the {z} and stir."],
        ],
    },
];

/// Draws a dish and three of its ingredients.
fn order(writer: &mut Writer, kind: &str) -> (&'static Dish, Vec<&'static str>) {
    let (dish, chosen) = writer.operands(kind, |writer| {
        let dish = writer.below(DISHES.len());
        (dish, writer.distinct(DISHES[dish].choice, 3))
    });
    (&DISHES[dish], chosen)
}

fn ask(wording: &str, dish: &Dish, chosen: &[&str]) -> String {
    let a_dish = if dish.name == "pasta" { "pasta".to_owned() } else { with_article(dish.name) };
    fill(wording, &[("a", &a_dish), ("d", dish.name), ("list", &and_list(chosen))])
}

fn recipe(writer: &mut Writer) -> Dialogue {
    let (dish, chosen) = order(writer, "recipe");
    let wording = writer.wording(&[
        "Give me a recipe for {a} with {list}.",
        "How do I make {a} with {list}?",
        "I have {list}. How can I make {a}?",
        "Please write a recipe: {d} with {list}.",
        "I want to cook {a} with {list}. What do I do?",
        "What is a good recipe for {a} that uses {list}?",
        "Tell me how to cook {a}. It should have {list} in it.",
        "Recipe for {a}, please. I have {list} at home.",
        "We have {list} in the kitchen. Write a recipe for {a}.",
        "My guests want {a} with {list}. How do I cook it?",
        "Can you write a recipe for {a} with {list}?",
        "I have {list} in the kitchen and want to make {a}. What do I do?",
        "Please tell me how to make {a} with {list}.",
    ]);
    let minutes = (5 * writer.between(2, 6)).to_string();
    let slots = [("x", chosen[0]), ("y", chosen[1]), ("z", chosen[2]), ("n", minutes.as_str())];
    let mut lines = vec![format!("{} with {}", capital(dish.name), and_list(&chosen)), "Ingredients:".to_owned()];
    lines.extend(chosen.iter().chain(dish.base).map(|item| format!("- {item}")));
    lines.push("Steps:".to_owned());
    for (index, step) in dish.steps.iter().enumerate() {
        lines.push(format!("{}. {}", index + 1, fill(writer.pick(step), &slots)));
    }
    let exchange = Exchange::checked(ask(wording, dish, &chosen), lines.join("\n"), Check::Contains(owned(&chosen)));
    Dialogue::single("recipe", exchange)
}

fn shopping_list(writer: &mut Writer) -> Dialogue {
    let (dish, chosen) = order(writer, "shopping_list");
    let wording = writer.wording(&[
        "Write a shopping list for {a} with {list}.",
        "What do I need to buy for {a} with {list}?",
        "I want to make {a} with {list}. Write me a shopping list.",
        "Shopping list for {a} with {list}, please.",
        "What should I buy? I am making {a} with {list}.",
        "Please make a shopping list: {d} with {list}.",
        "I am going to the market. What do I need for {a} with {list}?",
        "Tonight we eat {a} with {list}. What must I buy?",
        "Can you list what I need for {a} with {list}?",
        "Make a list of what to buy for {a} with {list}.",
        "Can you write a shopping list for {a} with {list}?",
        "I am making {a} with {list}. What do I need to buy?",
        "Please list what I must buy for {a} with {list}.",
    ]);
    let opening = writer.pick(&["Shopping list:", "You need:", "Here is your shopping list:"]);
    let items: Vec<String> = chosen.iter().chain(dish.base).map(|item| format!("- {item}")).collect();
    let must: Vec<&str> = chosen.iter().chain(dish.base).copied().collect();
    let answer = format!("{opening}\n{}", items.join("\n"));
    let exchange = Exchange::checked(ask(wording, dish, &chosen), answer, Check::Contains(owned(&must)));
    Dialogue::single("shopping_list", exchange)
}

const TIMES: &[(&str, &str, &str)] = &[
    ("eggs", "Boil", "8"),
    ("rice", "Boil", "15"),
    ("pasta", "Boil", "10"),
    ("potatoes", "Boil", "20"),
    ("carrots", "Boil", "12"),
    ("peas", "Boil", "5"),
    ("beans", "Cook", "40"),
    ("bread", "Bake", "45"),
    ("a cake", "Bake", "35"),
    ("a pie", "Bake", "50"),
    ("pancakes", "Fry", "4"),
    ("fish", "Fry", "9"),
    ("mushrooms", "Fry", "6"),
    ("onions", "Fry", "7"),
    ("a chicken", "Roast", "90"),
    ("cookies", "Bake", "13"),
    ("pizza", "Bake", "14"),
    ("tea", "Brew", "3"),
];

fn cooking_time(writer: &mut Writer) -> Dialogue {
    let (food, verb, minutes) = one(writer, TIMES);
    let wording = writer.wording(&[
        "How long do I {v} {f}?",
        "How many minutes should I {v} {f}?",
        "For how long must I {v} {f}?",
        "Tell me how long to {v} {f}.",
        "I want to {v} {f}. How long does it take?",
        "What is the right time to {v} {f}?",
        "How long does it take to {v} {f}?",
        "I am going to {v} {f}. How many minutes?",
        "When I {v} {f}, how long should I wait?",
        "Please tell me how many minutes to {v} {f}.",
        "How long should I {v} {f}?",
        "How many minutes does it take to {v} {f}?",
        "I want to {v} {f}. How many minutes should I wait?",
    ]);
    let form =
        writer.pick(&["{V} {f} for {n} minutes.", "{V} {f} for about {n} minutes.", "You {v} {f} for {n} minutes."]);
    let v = verb.to_lowercase();
    let slots = [("V", verb), ("v", v.as_str()), ("f", food), ("n", minutes)];
    let exchange = Exchange::checked(fill(wording, &slots), fill(form, &slots), Check::Number(minutes.to_owned()));
    Dialogue::single("cooking_time", exchange)
}
