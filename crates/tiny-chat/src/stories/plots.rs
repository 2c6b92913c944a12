//! Events of a story.

use super::words::Plot;

/// The plots.
pub(super) const PLOTS: &[Plot] = &[
    Plot {
        problem: &[
            "{when}, the {obj} was gone. {n} looked under the bed and behind the door, but it was not there.",
            "{when}, {n} lost the {obj} on the way home. {he} was very sad.",
        ],
        deed: &[
            "{m} the {friend} heard {him} cry and asked what was wrong. \"I will help you look,\" said {m}.",
            "{m} the {friend} followed the footprints to a hollow tree.",
        ],
        outcome: &[
            "they searched until noon and found the {obj} under a pile of leaves.",
            "at last {m} saw the {obj} shining in the grass and gave it back to {n}.",
        ],
    },
    Plot {
        problem: &[
            "{when}, the {obj} fell into deep water. {n} could not swim and did not know what to do.",
            "{when}, {n} slipped on a wet stone, and the {obj} fell into a well.",
        ],
        deed: &[
            "just then {m} the {friend} came by with a long stick. \"hold my hand,\" said {m}.",
            "{n} called for help, and {m} the {friend} came running with a net.",
        ],
        outcome: &[
            "together they pulled the {obj} out of the water. it was wet, but it was not broken.",
            "{m} reached down and brought the {obj} up again.",
        ],
    },
    Plot {
        problem: &[
            "{when}, a strong wind came and carried the {obj} into a tall tree.",
            "{when}, the wind took the {obj} and blew it onto a high roof.",
        ],
        deed: &[
            "{n} was afraid of high places, so {he} asked {m} the {friend} for help.",
            "{n} jumped three times, but it was too high. then {m} the {friend} brought a ladder.",
        ],
        outcome: &[
            "{m} climbed up slowly and threw the {obj} down to {n}.",
            "{n} held the ladder while {m} climbed up, and soon the {obj} was safe.",
        ],
    },
    Plot {
        problem: &[
            "{when}, the {obj} broke in two. {n} sat down and cried.",
            "{when}, {n} dropped the {obj}, and it broke.",
        ],
        deed: &[
            "{m} the {friend} had a box of tools and a lot of time. \"we can mend it,\" said {m}.",
            "{he} took the pieces to {m} the {friend}, who was good at mending things.",
        ],
        outcome: &[
            "they worked all afternoon, and in the evening the {obj} was as good as new.",
            "with some glue and some string, {m} made the {obj} whole again.",
        ],
    },
    Plot {
        problem: &[
            "{when}, {m} the {friend} wanted to have the {obj} too, and they began to fight.",
            "{when}, {m} the {friend} asked for the {obj}. \"no, it is mine,\" said {n}.",
        ],
        deed: &[
            "{m} went away and was sad. soon {n} was sad too, for it was no fun to play alone.",
            "then it began to rain, and both of them sat under one tree and said nothing.",
        ],
        outcome: &[
            "\"we can share it,\" said {n}. they took turns with the {obj} and played until dark.",
            "so {n} gave {m} the {obj} for a day, and {m} gave {n} a bag of nuts.",
        ],
    },
    Plot {
        problem: &[
            "{when}, {m} the {friend} got lost in the dark. nobody knew where {fhe} was.",
            "{when}, {m} the {friend} did not come home, and {n} was afraid for {fhim}.",
        ],
        deed: &[
            "{n} took the {obj}, walked along the path and called the name of {m} again and again.",
            "{n} stood on a big stone and waved the {obj} high in the air.",
        ],
        outcome: &[
            "at last {m} saw the {obj} from far away and came running.",
            "{m} heard {him}, saw the {obj} and knew the way again.",
        ],
    },
    Plot {
        problem: &[
            "{when}, it was the birthday of {m} the {friend}, but {n} had no money for a gift.",
            "{when}, {m} the {friend} was ill in bed, and {n} wanted to make {fhim} happy.",
        ],
        deed: &[
            "{he} thought about it for a long time. then {he} cleaned the {obj} and put a ribbon on it.",
            "\"I will give away the {obj},\" said {n}, \"for {m} is worth it.\"",
        ],
        outcome: &[
            "{m} opened the gift, saw the {obj} and danced with joy.",
            "when {m} saw the {obj}, {fhe} smiled for the first time that day.",
        ],
    },
    Plot {
        problem: &[
            "{when}, a thief came and took the {obj} while {n} was asleep.",
            "{when}, {n} saw that a bird had taken the {obj} to its nest.",
        ],
        deed: &[
            "{m} the {friend} had a plan. \"we will trade it for some berries,\" said {m}.",
            "{n} told {m} the {friend}, and they set out to find it before night.",
        ],
        outcome: &[
            "the plan worked, and {n} held the {obj} in {his} arms again.",
            "they asked politely, and to their surprise they got the {obj} back.",
        ],
    },
    Plot {
        problem: &[
            "{when}, {n} met {m} the {friend}, who was cold and hungry and had nothing.",
            "{when}, {m} the {friend} knocked at the door and asked for shelter.",
        ],
        deed: &[
            "{n} made a fire, cooked soup and showed {m} the {obj}.",
            "\"come in,\" said {n}. they sat by the fire and looked at the {obj}.",
        ],
        outcome: &[
            "\"I have never seen such a fine {obj},\" said {m}, and {fhe} told stories until midnight.",
            "in the morning {m} thanked {n} and promised to come back soon.",
        ],
    },
    Plot {
        problem: &[
            "{when}, {n} wanted to take the {obj} to the king, but the road was long.",
            "{when}, {n} set out to show the {obj} to the whole world.",
        ],
        deed: &[
            "on the way {he} met {m} the {friend}, who knew every road. they walked for three days.",
            "soon {he} was tired, and {m} the {friend} carried the {obj} for {him}.",
        ],
        outcome: &[
            "the king liked the {obj} very much and gave them a cake.",
            "but in the end they saw that home was the best place for the {obj}.",
        ],
    },
];
