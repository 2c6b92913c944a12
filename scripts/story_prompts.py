#!/usr/bin/env python3
"""Openings of small children's stories, for backbones that were trained on such: 600 to answer, 120 others to measure on.

    scripts/story_prompts.py FOLDER     writes FOLDER/train.txt and FOLDER/held_out.jsonl

No name, animal or thing of the held-out openings is in one of the others, and two of its six templates are not either.
"""
import json
import pathlib
import random
import sys

TRAIN = {
    "name": "Tim Mia Tom Lily Ben Anna Sam Sue Max Lucy Jack Jane".split(),
    "animal": "dog cat bird bear frog duck fish rabbit".split(),
    "thing": "ball,toy,cake,boat,book,flower,big tree,red car,hat,kite".split(","),
    "place": "park,shop,house,garden,forest,school".split(","),
}
HELD_OUT = {
    "name": "Emma Bob Amy Joe Sara Leo Ella Kate".split(),
    "animal": "mouse lion cow horse fox pig".split(),
    "thing": "box,doll,blue truck,apple,drum,shiny stone".split(","),
    "place": "beach,farm,zoo,lake".split(","),
}
TEMPLATES = [
    "Once upon a time, {name} went to the {place}",
    "One day, {name} saw a {thing}",
    "{name} and {other} wanted to play with the {thing}",
    "There was a little {animal} in the {place}",
    "{name} saw the {thing}. {name} liked to",
    "In the {place}, there was a {animal}",
]
NEW_TEMPLATES = ["{name} found a {thing} near the {place}", "The {animal} was sad, and {name}"]


def openings(words, templates, count, chance):
    """So many different openings, in the order in which they are drawn."""
    found = {}
    while len(found) < count:
        name, other = chance.sample(words["name"], 2)
        pick = {key: chance.choice(words[key]) for key in ("animal", "thing", "place")}
        found[chance.choice(templates).format(name=name, other=other, **pick)] = None
    return list(found)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(7)
    train = openings(TRAIN, TEMPLATES, 600, chance)
    held_out = openings(HELD_OUT, TEMPLATES[2:] + NEW_TEMPLATES, 120, chance)
    (folder / "train.txt").write_text("".join(line + "\n" for line in train))
    (folder / "held_out.jsonl").write_text("".join(json.dumps({"prompt": line}) + "\n" for line in held_out))


main()
