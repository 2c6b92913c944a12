//! Agendas, appointments, invitations and packing lists.

use crate::check::Check;
use crate::dialogue::{Dialogue, Exchange};
use crate::kind::Kind;
use crate::lexicon::MONTHS;
use crate::phrase::{and_list, capital, fill, one, owned};
use crate::stories::words::NAMES;
use crate::writer::Writer;

/// The kinds of this file.
pub(crate) const KINDS: &[Kind] = &[
    Kind { name: "agenda", weight: 3.0, write: agenda },
    Kind { name: "agenda_at", weight: 1.5, write: agenda_at },
    Kind { name: "agenda_when", weight: 1.5, write: agenda_when },
    Kind { name: "invitation", weight: 2.0, write: invitation },
    Kind { name: "packing", weight: 1.5, write: packing },
];

const APPOINTMENTS: &[&str] = &[
    "dentist",
    "swimming",
    "lunch",
    "dinner",
    "meeting",
    "school",
    "piano",
    "football",
    "doctor",
    "market",
    "bank",
    "library",
    "concert",
    "cinema",
    "breakfast",
    "train",
    "painting",
    "dancing",
    "museum",
    "haircut",
    "chess",
    "tea",
];

fn date(writer: &mut Writer) -> String {
    format!("{} {}", writer.between(1, 28), writer.pick(MONTHS))
}

/// A time of day from eight o'clock on, by the half-hour since then.
fn clock(half: usize) -> String {
    format!("{:02}:{}", 8 + half / 2, if half.is_multiple_of(2) { "00" } else { "30" })
}

/// Three or four appointments in mixed order, with the half-hours they are at.
fn day(writer: &mut Writer, kind: &str) -> Vec<(usize, &'static str)> {
    writer.operands(kind, |writer| {
        let n = 3 + writer.below(2);
        let halves: Vec<usize> = (0..26).collect();
        writer.distinct(&halves, n).into_iter().zip(writer.distinct(APPOINTMENTS, n)).collect()
    })
}

/// The appointments in words, as given.
fn listed(writer: &mut Writer, day: &[(usize, &str)]) -> String {
    let form = writer.pick(&["{w} at {t}", "{w} at {t}", "{t} {w}", "{w} ({t})"]);
    let parts: Vec<String> = day.iter().map(|(half, what)| fill(form, &[("w", what), ("t", &clock(*half))])).collect();
    if writer.chance(0.5) { parts.join(", ") } else { and_list(&parts) }
}

fn agenda(writer: &mut Writer) -> Dialogue {
    let mut day = day(writer, "agenda");
    let (date, list) = (date(writer), listed(writer, &day));
    let wording = writer.wording(&[
        "Write my agenda for {date}: {list}.",
        "On {date} I have {list}. Please write the agenda in order of time.",
        "Put these in order of time for {date}: {list}.",
        "Here are my appointments on {date}: {list}. Sort them by time.",
        "Make an agenda for {date} from this: {list}.",
        "My day on {date}: {list}. What does the agenda look like?",
        "Please plan {date} for me. I have {list}.",
        "{date}: {list}. Write that as an agenda.",
        "I need an agenda for {date}. There is {list}.",
        "Can you sort my appointments for {date}? They are {list}.",
        "Can you write an agenda for {date}? I have {list}.",
        "Please sort my day on {date} by time: {list}.",
        "Here is my {date}: {list}. Write the agenda in order.",
    ]);
    let text = fill(wording, &[("date", &date), ("list", &list)]);
    day.sort_unstable();
    let lines: Vec<String> = day.iter().map(|(half, what)| format!("{} {what}", clock(*half))).collect();
    let order: Vec<&str> = day.iter().map(|(_, what)| *what).collect();
    let answer = format!("Agenda for {date}\n{}\nIn order: {}", lines.join("\n"), order.join(", "));
    Dialogue::single("agenda", Exchange::checked(text, answer, Check::List(owned(&order))))
}

fn agenda_at(writer: &mut Writer) -> Dialogue {
    let day = day(writer, "agenda_at");
    let (half, what) = one(writer, &day);
    let list = listed(writer, &day);
    let wording = writer.wording(&[
        "Today I have {list}. What do I have at {t}?",
        "My plan: {list}. What is at {t}?",
        "I have {list}. What must I do at {t}?",
        "Here is my agenda: {list}. What is planned for {t}?",
        "What happens at {t}? My day is {list}.",
        "Appointments: {list}. Which one is at {t}?",
        "This is my day: {list}. Where do I go at {t}?",
        "{list}. What do I do at {t}?",
        "Tomorrow there is {list}. Tell me what is at {t}.",
        "Look at my plan and tell me what is at {t}: {list}.",
        "My appointments today: {list}. What is at {t}?",
        "Here is my plan: {list}. What do I have at {t}?",
        "I have {list} today. Tell me what I do at {t}.",
    ]);
    let t = clock(half);
    let form = writer.pick(&["At {t} you have {w}.", "You have {w} at {t}.", "It is {w}, at {t}.", "{W} is at {t}."]);
    let slots = [("list", list.as_str()), ("t", &t), ("w", what), ("W", &capital(what))];
    let exchange = Exchange::checked(fill(wording, &slots), fill(form, &slots), Check::Contains(owned(&[what])));
    Dialogue::single("agenda_at", exchange)
}

fn agenda_when(writer: &mut Writer) -> Dialogue {
    let day = day(writer, "agenda_when");
    let (half, what) = one(writer, &day);
    let list = listed(writer, &day);
    let wording = writer.wording(&[
        "Today I have {list}. When is {w}?",
        "My plan: {list}. At what time is {w}?",
        "I have {list}. What time is {w}?",
        "Here is my agenda: {list}. When do I have {w}?",
        "When is {w}? My day is {list}.",
        "Appointments: {list}. Tell me the time of {w}.",
        "This is my day: {list}. When does {w} start?",
        "{list}. At what time do I have {w}?",
        "Tomorrow there is {list}. Tell me when {w} is.",
        "Look at my plan and tell me when {w} is: {list}.",
        "My appointments today: {list}. When is {w}?",
        "Here is my plan: {list}. At what time is {w}?",
        "I have {list} today. Tell me the time of {w}.",
    ]);
    let t = clock(half);
    let form = writer.pick(&["{W} is at {t}.", "You have {w} at {t}.", "It is at {t}.", "{W} starts at {t}."]);
    let slots = [("list", list.as_str()), ("t", &t), ("w", what), ("W", &capital(what))];
    let exchange = Exchange::checked(fill(wording, &slots), fill(form, &slots), Check::Contains(vec![t.clone()]));
    Dialogue::single("agenda_when", exchange)
}

const EVENTS: &[&str] = &[
    "birthday party",
    "garden party",
    "concert",
    "dinner",
    "wedding",
    "school play",
    "picnic",
    "tea party",
    "book club",
    "football game",
    "dance",
    "film night",
];

const VENUES: &[&str] = &[
    "in the garden",
    "at the lake",
    "in the library",
    "at my house",
    "in the town hall",
    "at the harbour",
    "in the park",
    "on the farm",
    "at the school",
    "in the old mill",
];

const INVITE: &[&str] = &[
    "Write an invitation to a {e} on {d} at {t} {v} for {g}.",
    "Please invite {g} to a {e} on {d} at {t} {v}.",
    "I am planning a {e} on {d} at {t} {v}. Write an invitation for {g}.",
    "Invitation for {g}: {e}, {d}, {t}, {v}.",
    "Can you write to {g} and invite them to a {e}? It is on {d} at {t} {v}.",
    "Help me invite {g}. There is a {e} {v} on {d} at {t}.",
    "Write a few lines to {g}: a {e} {v}, on {d}, at {t}.",
    "We have a {e} {v} on {d} at {t}. Invite {g}, please.",
    "I need an invitation to a {e} for {g}. Date: {d}. Time: {t}. Place: {v}.",
    "Make an invitation for {g} to our {e} on {d} at {t} {v}.",
    "Can you write an invitation for {g} to a {e} {v} on {d} at {t}?",
    "I am planning a {e} {v} on {d} at {t}. Please invite {g}.",
    "Help me write an invitation for {g}: a {e} on {d} at {t} {v}.",
];

fn invitation(writer: &mut Writer) -> Dialogue {
    let (event, date, half, venue, guest) = writer.operands("invitation", |writer| {
        (writer.pick(EVENTS), date(writer), writer.below(26), writer.pick(VENUES), one(writer, NAMES).0)
    });
    let wording = writer.wording(INVITE);
    let form = writer.pick(&[
        "Dear {g},\nyou are invited to a {e} on {d} at {t} {v}. {x}\n{y}",
        "Dear {g},\nplease come to my {e}. It is on {d} at {t} {v}. {x}\n{y}",
        "Hello {g},\non {d} there is a {e} {v}. It starts at {t}. {x}\n{y}",
        "Hello {g},\nI would like to invite you to a {e} {v}. The date is {d}, and the time is {t}. {x}\n{y}",
    ]);
    let t = clock(half);
    let slots = [
        (
            "x",
            writer.pick(&[
                "I hope you can come.",
                "Please tell me if you can come.",
                "Bring a friend if you like.",
                "It will be fun.",
            ]),
        ),
        ("y", writer.pick(&["See you soon!", "Best wishes", "Yours", "With love"])),
        ("e", event),
        ("d", &date),
        ("t", &t),
        ("v", venue),
        ("g", guest),
    ];
    let check = Check::Contains(owned(&[guest, event, &date, &t, venue]));
    Dialogue::single("invitation", Exchange::checked(fill(wording, &slots), fill(form, &slots), check))
}

const TRIPS: &[(&str, &[&str])] = &[
    ("a trip to the beach", &["a swimsuit", "a towel", "a sun hat", "sandals", "sun cream"]),
    ("a trip to the mountains", &["warm boots", "a jacket", "a map", "a rope", "a water bottle"]),
    ("a trip to the city", &["good shoes", "a camera", "a city map", "an umbrella", "some money"]),
    ("a camping trip", &["a tent", "a sleeping bag", "a lamp", "matches", "a cooking pot"]),
    ("a trip into the snow", &["warm gloves", "a wool hat", "a scarf", "thick boots", "a sledge"]),
    ("a boat trip", &["a life jacket", "a raincoat", "a rope", "a sun hat", "some food"]),
    ("a train trip", &["the ticket", "a book", "a pillow", "some food", "headphones"]),
];

fn packing(writer: &mut Writer) -> Dialogue {
    let (trip, days) = writer.operands("packing", |writer| (writer.below(TRIPS.len()), writer.between(2, 14)));
    let wording = writer.wording(&[
        "Write a packing list for {t} of {n} days.",
        "What should I pack for {t} of {n} days?",
        "I am going on {t} for {n} days. What do I need?",
        "Packing list please: {t}, {n} days.",
        "We plan {t} of {n} days. What do we pack?",
        "Help me pack for {t}. It is {n} days long.",
        "What do I take with me on {t} of {n} days?",
        "Tomorrow I leave for {t} of {n} days. Make a packing list.",
        "I have {n} days for {t}. What should be in my bag?",
        "Make a list of things to pack for {t} of {n} days.",
        "What do I need to pack for {t} of {n} days?",
        "I am going on {t} of {n} days. Write a packing list.",
        "Help me make a packing list for {t} of {n} days.",
    ]);
    let (name, items) = TRIPS[trip];
    let (n, items) = (days.to_string(), writer.distinct(items, 4));
    let lines: Vec<String> = items.iter().map(|item| format!("- {item}")).collect();
    let opening = writer.pick(&["Packing list for {n} days:", "For {n} days you need:", "Pack this for {n} days:"]);
    let answer =
        fill(&format!("{opening}\n- {{n}} shirts\n- {{n}} pairs of socks\n{}", lines.join("\n")), &[("n", &n)]);
    let check = Check::Contains(vec![format!("{n} shirts"), format!("{n} pairs of socks")]);
    Dialogue::single("packing", Exchange::checked(fill(wording, &[("t", name), ("n", &n)]), answer, check))
}
