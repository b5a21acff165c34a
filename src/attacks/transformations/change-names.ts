import type { Transformation } from "../protocol.js";
import { replaceWords } from "./replace-words.js";

const list = (names: string): string[] => names.split(" ");

/**
 * Common names of each kind. A name is only replaced by another one of its kind. Names that are
 * also words (Will, Rose, Brown, Turkey) are left out.
 */
const nameTables: Readonly<Record<string, readonly string[]>> = {
  firstNames: list(
    "James Robert John Michael David William Richard Joseph Thomas Charles Christopher Daniel Matthew Anthony Steven " +
      "Andrew Paul Joshua Kenneth Kevin Brian George Timothy Ronald Edward Jason Jeffrey Ryan Jacob Gary Nicholas " +
      "Eric Jonathan Stephen Larry Justin Scott Brandon Benjamin Samuel Gregory Alexander Patrick Raymond Dennis " +
      "Mary Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Lisa Nancy Betty Sandra Margaret " +
      "Ashley Kimberly Emily Donna Michelle Carol Amanda Melissa Deborah Stephanie Rebecca Sharon Laura Cynthia " +
      "Kathleen Amy Angela Anna Emma Nicole Helen Samantha Katherine Christine Rachel Carolyn Janet Maria Heather",
  ),
  lastNames: list(
    "Smith Johnson Williams Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson " +
      "Taylor Moore Jackson Martin Perez Thompson Harris Sanchez Clark Ramirez Lewis Robinson Walker Allen Wright " +
      "Torres Nguyen Flores Adams Nelson Baker Rivera Campbell Mitchell Carter Roberts Gomez Phillips Evans Turner " +
      "Diaz Parker Edwards Collins Reyes Stewart Morris Morales Murphy Rogers Gutierrez Ortiz Morgan Cooper",
  ),
  countries: list(
    "Argentina Australia Austria Bangladesh Belgium Brazil Bulgaria Canada Chile Colombia Croatia Cuba Denmark Egypt " +
      "Ethiopia Finland France Germany Ghana Greece Hungary Iceland India Indonesia Iran Iraq Ireland Israel Italy " +
      "Japan Kenya Malaysia Mexico Morocco Nepal Netherlands Nigeria Norway Pakistan Peru Poland Portugal " +
      "Romania Russia Scotland Singapore Spain Sweden Switzerland Taiwan Thailand Ukraine Uruguay Venezuela Vietnam",
  ),
  nationalities: list(
    "Argentinian Australian Austrian Belgian Brazilian British Bulgarian Canadian Chilean Chinese Colombian Croatian " +
      "Cuban Danish Dutch Egyptian English Ethiopian French German Greek Hungarian Icelandic Indian Indonesian Irish " +
      "Israeli Italian Japanese Kenyan Malaysian Mexican Moroccan Nigerian Norwegian Pakistani Peruvian Portuguese " +
      "Romanian Russian Scottish Spanish Swedish Swiss Thai Ukrainian Vietnamese",
  ),
  cities: list(
    "Amsterdam Athens Atlanta Baghdad Bangkok Barcelona Beijing Berlin Boston Brussels Budapest Cairo Chicago " +
      "Copenhagen Dallas Delhi Denver Detroit Dublin Frankfurt Geneva Hamburg Helsinki Houston Istanbul Jakarta " +
      "Johannesburg Lagos Lima Lisbon London Madrid Manila Melbourne Miami Milan Montreal Moscow Mumbai Munich " +
      "Oslo Paris Philadelphia Prague Rome Seattle Seoul Shanghai Singapore Stockholm Sydney Tokyo Toronto Vancouver " +
      "Vienna Warsaw Washington Zurich",
  ),
};

/** Candidates per name. */
const count = 3;

/** The names of the same kind, by name. The first kind that contains a name decides. */
const namesOfKind = new Map(
  Object.values(nameTables)
    .toReversed()
    .flatMap((names) => names.map((name) => [name, names] as const)),
);

/** Replaces first names, last names, countries, nationalities and cities by random others. */
export const changeNames: Transformation = {
  name: "other names of people and places",
  kind: "swap",
  apply: (text, positions, rng) =>
    replaceWords(text, positions, (word) => {
      const others = namesOfKind.get(word)?.filter((name) => name !== word) ?? [];
      return rng.shuffle([...others]).slice(0, count);
    }),
};
