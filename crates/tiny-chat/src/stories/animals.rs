//! Sentences about animals and places.

/// An animal: its name, where it lives, what it eats, what it looks like, what it does.
pub(crate) type Animal = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// Animals.
pub(crate) const ABOUT_ANIMALS: &[Animal] = &[
    ("fox", "in the forest", "mice and berries", "red fur and a long tail", "hunts at night"),
    ("bear", "in the mountains", "fish, honey and berries", "thick brown fur and big paws", "sleeps in winter"),
    ("rabbit", "in holes under the ground", "grass and carrots", "soft fur and long ears", "jumps very fast"),
    ("owl", "in old trees", "mice", "big eyes and soft feathers", "flies at night"),
    ("duck", "on lakes and rivers", "plants and small fish", "feathers and wide feet", "swims very well"),
    ("frog", "near ponds", "flies", "green skin and long legs", "jumps and swims"),
    ("cat", "in houses with people", "meat and fish", "soft fur and sharp claws", "likes to sleep in the sun"),
    ("dog", "in houses with people", "meat and bones", "fur and a good nose", "guards the house"),
    ("goat", "on farms and mountains", "grass and leaves", "two horns and a beard", "climbs very well"),
    ("horse", "on farms", "grass and hay", "long legs and a long tail", "runs very fast"),
    ("pig", "on farms", "almost everything", "pink skin and a round nose", "likes to lie in mud"),
    ("sheep", "in green meadows", "grass", "thick white wool", "stays close to the others"),
    ("squirrel", "in trees", "nuts and seeds", "red fur and a big tail", "hides nuts for the winter"),
    ("hedgehog", "in gardens", "worms and beetles", "a back full of spines", "rolls up into a ball"),
    ("turtle", "in the sea and on land", "plants", "a hard shell", "walks slowly and lives long"),
    ("wolf", "in dark forests", "meat", "grey fur and sharp teeth", "lives in a pack"),
    ("beaver", "by rivers", "bark and leaves", "brown fur and a flat tail", "builds dams of wood"),
    ("crow", "in fields and towns", "seeds and worms", "black feathers", "is a very clever bird"),
    ("bee", "in a hive", "sweet juice from flowers", "yellow and black stripes", "makes honey"),
    ("elephant", "in warm lands", "leaves and grass", "grey skin and a long trunk", "never forgets a friend"),
    ("lion", "in warm lands", "meat", "yellow fur and a strong voice", "sleeps most of the day"),
    ("penguin", "in the cold south", "fish", "black and white feathers", "swims but cannot fly"),
    ("whale", "in the sea", "very small sea animals", "smooth skin and a wide tail", "sings under the water"),
    ("snake", "in grass and sand", "mice and eggs", "smooth skin and no legs", "moves without a sound"),
];

/// A place, what is seen there, what is heard there, what one does there.
pub(super) const ABOUT_PLACES: &[(&str, &str, &str, &str)] = &[
    ("forest", "tall trees and soft moss", "birds in the branches", "walk and look for mushrooms"),
    ("lake", "clear water and green hills", "ducks and the wind", "swim or sail a boat"),
    ("village", "small houses and a church", "a bell every hour", "meet your neighbours"),
    ("farm", "a barn, cows and yellow fields", "a rooster in the morning", "feed the animals"),
    ("mountain", "grey stones and white snow", "only the wind", "climb to the top"),
    ("beach", "yellow sand and blue water", "the waves", "swim and build castles"),
    ("garden", "roses, apple trees and a bench", "bees in the flowers", "sit in the sun"),
    ("castle", "high walls and a strong gate", "steps on the stone floor", "look down from the tower"),
    ("island", "palm trees and white sand", "waves on every side", "rest and catch fish"),
    ("river", "stones, reeds and quick water", "the water as it runs", "fish from the bank"),
    ("harbour", "ships, ropes and nets", "gulls and bells", "watch the boats come in"),
    ("market", "fruit, bread and many people", "sellers who call out prices", "buy fresh food"),
    ("library", "shelves full of books", "pages as they turn", "read for hours"),
    ("station", "trains, clocks and bags", "wheels and whistles", "wait for your train"),
    ("school", "desks, maps and a big board", "children who laugh", "learn to read and count"),
    ("lighthouse", "a white tower with a bright lamp", "the sea far below", "look out for ships"),
];
