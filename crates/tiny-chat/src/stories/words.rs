//! The words that stories are made of.

/// A name and its three pronouns.
pub(crate) type Name = (&'static str, &'static str, &'static str, &'static str);

/// Names of heroes and friends.
pub(crate) const NAMES: &[Name] = &[
    ("Pip", "he", "him", "his"),
    ("Max", "he", "him", "his"),
    ("Tom", "he", "him", "his"),
    ("Ben", "he", "him", "his"),
    ("Leo", "he", "him", "his"),
    ("Sam", "he", "him", "his"),
    ("Otto", "he", "him", "his"),
    ("Finn", "he", "him", "his"),
    ("Hugo", "he", "him", "his"),
    ("Milo", "he", "him", "his"),
    ("Lily", "she", "her", "her"),
    ("Mia", "she", "her", "her"),
    ("Rosa", "she", "her", "her"),
    ("Nora", "she", "her", "her"),
    ("Ella", "she", "her", "her"),
    ("Zoe", "she", "her", "her"),
    ("Ida", "she", "her", "her"),
    ("Ruby", "she", "her", "her"),
    ("Clara", "she", "her", "her"),
    ("Daisy", "she", "her", "her"),
];

/// Animals.
pub(crate) const ANIMALS: &[&str] = &[
    "fox", "bear", "rabbit", "mouse", "owl", "duck", "frog", "cat", "dog", "goat", "horse", "pig", "sheep", "squirrel",
    "hedgehog", "turtle", "wolf", "beaver", "otter", "crow", "donkey", "badger", "deer", "goose",
];

/// Places: the noun and how one is there.
pub(crate) const PLACES: &[(&str, &str)] = &[
    ("forest", "in the forest"),
    ("lake", "by the lake"),
    ("village", "in the village"),
    ("farm", "on the farm"),
    ("mountain", "on the mountain"),
    ("beach", "on the beach"),
    ("garden", "in the garden"),
    ("castle", "in the castle"),
    ("island", "on the island"),
    ("river", "by the river"),
    ("valley", "in the valley"),
    ("harbour", "at the harbour"),
    ("market", "at the market"),
    ("mill", "at the mill"),
    ("meadow", "in the meadow"),
    ("bridge", "by the bridge"),
    ("lighthouse", "at the lighthouse"),
    ("school", "at the school"),
    ("station", "at the station"),
    ("hill", "on the hill"),
];

/// Things that a story can be about.
pub(crate) const OBJECTS: &[&str] = &[
    "kite", "lamp", "drum", "key", "boat", "basket", "bell", "ball", "hat", "book", "cup", "ring", "map", "scarf",
    "flute", "box", "coin", "spoon", "umbrella", "clock", "rope", "blanket", "mirror", "bottle",
];

/// Colours and other looks of an object.
pub(crate) const LOOKS: &[&str] =
    &["red", "blue", "green", "yellow", "old", "new", "golden", "silver", "small", "round", "shiny", "wooden"];

/// How a hero is.
pub(crate) const NATURES: &[&str] =
    &["little", "brave", "clever", "shy", "kind", "curious", "young", "quiet", "merry", "sleepy", "proud", "gentle"];

/// Openings.
pub(super) const OPENINGS: &[&str] = &[
    "once upon a time, {a_nature} {animal} named {n} lived {place}.",
    "{n} was {a_nature} {animal} who lived {place}.",
    "long ago, {a_nature} {animal} called {n} had a home {place}.",
    "there was once {a_nature} {animal} named {n}, and {he} lived {place}.",
    "{a_nature} {animal} named {n} woke up early {place}.",
    "in a small house {place} lived {a_nature} {animal} named {n}.",
    "everyone {place} knew {n}, {a_nature} {animal}.",
    "this is the story of {n}, {a_nature} {animal} who lived {place}.",
];

/// How the hero feels about the object.
pub(super) const LOVES: &[&str] = &[
    "{he} loved {his} {obj} more than anything.",
    "{his} best thing was {a_obj}, a gift from {his} grandmother.",
    "every day {he} carried {a_obj} with {him}.",
    "{he} had {a_obj} and was very proud of it.",
    "on {his} birthday {he} had been given {a_obj}.",
    "{he} owned only one thing, {a_obj}.",
];

/// Weather and time.
pub(super) const WEATHERS: &[&str] = &[
    "one sunny morning",
    "one rainy day",
    "one cold evening",
    "one windy afternoon",
    "one foggy morning",
    "one warm night",
    "on the first day of spring",
    "on a snowy winter day",
    "one bright summer day",
    "one stormy night",
    "late in the autumn",
    "one day before breakfast",
];

/// A turn of events: what goes wrong, what is done about it, how it comes out.
pub(super) struct Plot {
    /// Problem of the story.
    pub problem: &'static [&'static str],
    /// Action that solves it.
    pub deed: &'static [&'static str],
    /// How it comes out.
    pub outcome: &'static [&'static str],
}

/// Endings.
pub(super) const ENDINGS: &[&str] = &[
    "from that day on, {n} and {m} were best friends.",
    "that night {n} slept well and dreamed of the {obj}.",
    "then they went home and ate warm bread with honey.",
    "{n} laughed, and {m} laughed too.",
    "{n} never forgot how kind {m} had been.",
    "and so {n} learned that two are stronger than one.",
    "they sang all the way home.",
    "\"thank you,\" said {n}, and {he} smiled.",
    "the sun went down, and {n} was happy.",
    "\"a friend is better than gold,\" said {n}.",
    "after that, {n} was always ready to help.",
    "and they all lived happily ever after.",
];
