//! Rhyming couplets.

/// First couplets, about the animal of the poem.
pub(super) const FIRST: &[&str] = &[
    "I saw {a} beside the sea,\nand it looked kindly back at me.",
    "There was {a} upon a hill,\nit sat so quiet and so still.",
    "A little {t} went out to play,\nand sang a happy song all day.",
    "I know {a} with shining eyes,\nit is so gentle and so wise.",
    "I met {a} in the snow,\nand asked it where it wished to go.",
    "The {t} woke up at half past four,\nand softly knocked upon my door.",
    "Oh {t}, oh {t}, come here to me,\nand sit with me beneath the tree.",
    "I had {a}, it was my friend,\nand I will love it to the end.",
    "A clever {t} once found a shoe,\nand painted it a lovely blue.",
    "The {t} is walking in the rain,\nit will not see the sun again.",
    "My {t} can jump, my {t} can run,\nand every day is full of fun.",
    "My {t} is small, my {t} is grey,\nit walks with me to school each day.",
];

/// Second couplets.
pub(super) const SECOND: &[&str] = &[
    "The sun went down, the moon rose high,\nand stars were shining in the sky.",
    "The wind was cold, the night was long,\nbut we were warm and sang a song.",
    "We walked together, hand in hand,\nand wrote our names into the sand.",
    "And when the day was done at last,\nwe said how quickly time had passed.",
    "The birds flew up, the leaves fell down,\nand all was quiet in the town.",
    "We had some bread, we had some tea,\nand we were glad as we could be.",
    "So close your eyes and go to sleep,\nthe night is dark, the dreams are deep.",
    "The river ran, the flowers grew,\nand all the world was fresh and new.",
    "And if you ask me where it went,\nI think it sleeps inside a tent.",
    "We found a boat, we sailed away,\nand came back home another day.",
    "The rain has gone, the sky is clear,\nand soon the summer will be here.",
    "I gave it cake, I gave it cheese,\nand it was very hard to please.",
];
