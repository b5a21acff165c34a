import { createRequire } from "node:module";
import type { PartOfSpeech } from "./part-of-speech.js";

/** The inflection of a word. "base" is the dictionary form. */
export type Inflection = "base" | "plural" | "third" | "past" | "participle" | "gerund" | "comparative" | "superlative";

/** Rows "base past participle". Verbs that double a consonant or take -ed are handled by rules. */
const irregularVerbs = parseTable(`
  arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|befall befell befallen
  begin began begun|bend bent bent|bet bet bet|bid bid bid|bind bound bound|bite bit bitten|bleed bled bled
  blow blew blown|break broke broken|breed bred bred|bring brought brought|broadcast broadcast broadcast
  build built built|burst burst burst|buy bought bought|cast cast cast|catch caught caught|choose chose chosen
  cling clung clung|come came come|cost cost cost|creep crept crept|cut cut cut|deal dealt dealt|dig dug dug
  do did done|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed fed
  feel felt felt|fight fought fought|find found found|flee fled fled|fling flung flung|fly flew flown
  forbid forbade forbidden|foresee foresaw foreseen|forget forgot forgotten|forgive forgave forgiven
  forsake forsook forsaken|freeze froze frozen|get got got|give gave given|go went gone|grind ground ground
  grow grew grown|hang hung hung|have had had|hear heard heard|hide hid hidden|hit hit hit|hold held held
  hurt hurt hurt|keep kept kept|know knew known|lay laid laid|lead led led|leave left left|lend lent lent
  let let let|lie lay lain|lose lost lost|make made made|mean meant meant|meet met met|mislead misled misled
  mistake mistook mistaken|misunderstand misunderstood misunderstood|outdo outdid outdone|overcome overcame overcome
  oversee oversaw overseen|overtake overtook overtaken|overthrow overthrew overthrown|partake partook partaken
  pay paid paid|put put put|quit quit quit|read read read|rebuild rebuilt rebuilt|rend rent rent|rid rid rid
  ride rode ridden|ring rang rung|rise rose risen|run ran run|say said said|see saw seen|seek sought sought
  sell sold sold|send sent sent|set set set|shake shook shaken|shed shed shed|shine shone shone|shoot shot shot
  show showed shown|shrink shrank shrunk|shut shut shut|sing sang sung|sink sank sunk|sit sat sat|slay slew slain
  sleep slept slept|slide slid slid|sling slung slung|slit slit slit|speak spoke spoken|spend spent spent
  spin spun spun|spit spat spat|split split split|spread spread spread|spring sprang sprung|stand stood stood
  steal stole stolen|stick stuck stuck|sting stung stung|stink stank stunk|stride strode stridden
  strike struck struck|string strung strung|strive strove striven|swear swore sworn|sweep swept swept
  swell swelled swollen|swim swam swum|swing swung swung|take took taken|teach taught taught|tear tore torn
  tell told told|think thought thought|throw threw thrown|thrust thrust thrust|tread trod trodden
  undergo underwent undergone|understand understood understood|undertake undertook undertaken|undo undid undone
  uphold upheld upheld|upset upset upset|wake woke woken|wear wore worn|weave wove woven|weep wept wept|win won won
  wind wound wound|withdraw withdrew withdrawn|withhold withheld withheld|withstand withstood withstood
  wring wrung wrung|write wrote written
`);

/** Rows "singular plural". */
const irregularNouns = parseTable(`
  man men|woman women|child children|person people|foot feet|tooth teeth|goose geese|mouse mice|louse lice|ox oxen
  die dice|analysis analyses|axis axes|basis bases|crisis crises|diagnosis diagnoses|hypothesis hypotheses
  oasis oases|parenthesis parentheses|synthesis syntheses|thesis theses|criterion criteria|phenomenon phenomena
  medium media|bacterium bacteria|curriculum curricula|datum data|stratum strata|stimulus stimuli|fungus fungi
  nucleus nuclei|alumnus alumni|calf calves|elf elves|half halves|hoof hooves|knife knives|leaf leaves|life lives
  loaf loaves|scarf scarves|self selves|sheaf sheaves|shelf shelves|thief thieves|wife wives|wolf wolves|sheep sheep
  fish fish|deer deer|series series|species species|aircraft aircraft|offspring offspring|means means
  crossroads crossroads|headquarters headquarters|echo echoes|hero heroes|potato potatoes|tomato tomatoes
  torpedo torpedoes|veto vetoes|quiz quizzes
`);

/** Rows "base comparative superlative". */
const irregularAdjectives = parseTable(`
  good better best|well better best|bad worse worst|ill worse worst|far farther farthest|little less least
  much more most|many more most
`);

/** Maps the first word of each row to the others. */
function parseTable(text: string): ReadonlyMap<string, readonly string[]> {
  const rows = text.trim().split(/\s*[|\n]\s*/);
  return new Map(rows.map((row) => row.split(" ")).map(([base, ...forms]) => [base!, forms]));
}

/**
 * Maps irregular forms to their base. A form that is also a base ("found", "saw") counts as
 * inflected.
 */
const irregularForms = new Map<string, { lemma: string; form: Inflection }>();
for (const [partOfSpeech, table, forms] of [
  ["verb", irregularVerbs, ["past", "participle"]],
  ["noun", irregularNouns, ["plural"]],
  ["adjective", irregularAdjectives, ["comparative", "superlative"]],
] as const) {
  for (const [lemma, words] of table) {
    forms.forEach((form, index) => {
      const key = `${partOfSpeech} ${words[index]}`;
      // The first base wins: "better" belongs to "good", not to "well".
      if (words[index] !== lemma && !irregularForms.has(key)) irregularForms.set(key, { lemma, form });
    });
  }
}

interface Lemmatizer {
  noun(word: string): string;
  verb(word: string): string;
  adjective(word: string): string;
}

/** It is loaded on first use, because it contains a list of 85,000 words. */
let lemmatizer: Lemmatizer | undefined;

/** Returns the dictionary form of a lowercase word, and which inflection the word is. */
export function analyzeInflection(
  word: string,
  partOfSpeech: PartOfSpeech,
): { readonly lemma: string; readonly form: Inflection } {
  const known = irregularForms.get(`${partOfSpeech} ${word}`);
  if (known) return known;
  if (partOfSpeech === "adverb" || partOfSpeech === "other") return { lemma: word, form: "base" };
  lemmatizer ??= createRequire(import.meta.url)("wink-lemmatizer") as Lemmatizer;
  const lemma = lemmatizer[partOfSpeech](word);
  if (lemma === word) return { lemma, form: "base" };
  if (partOfSpeech === "noun") return { lemma, form: "plural" };
  if (partOfSpeech === "adjective") return { lemma, form: word.endsWith("st") ? "superlative" : "comparative" };
  return { lemma, form: word.endsWith("ing") ? "gerund" : word.endsWith("s") ? "third" : "past" };
}

/**
 * Inflects a dictionary form. Returns undefined if the form needs more than one word ("more
 * beautiful").
 */
export function inflect(lemma: string, form: Inflection): string | undefined {
  switch (form) {
    case "base":
      return lemma;
    case "plural":
      return irregularNouns.get(lemma)?.[0] ?? addS(lemma);
    case "third":
      return lemma === "have" ? "has" : addS(lemma);
    case "past":
    case "participle":
      return irregularVerbs.get(lemma)?.[form === "past" ? 0 : 1] ?? addSuffix(lemma, "ed");
    case "gerund":
      return lemma.endsWith("ie") ? `${lemma.slice(0, -2)}ying` : addSuffix(lemma, "ing");
    case "comparative":
    case "superlative":
      return (
        irregularAdjectives.get(lemma)?.[form === "comparative" ? 0 : 1] ??
        (canTakeSuffix(lemma) ? addSuffix(lemma, form === "comparative" ? "er" : "est") : undefined)
      );
  }
}

/** Plural nouns and the third person of verbs follow the same rule. */
function addS(word: string): string {
  if (/[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(word) || /^(do|go|undergo|outdo|undo)$/.test(word) ? `${word}es` : `${word}s`;
}

/**
 * Drops a silent e, changes y to i, and doubles the last consonant after a short stressed vowel.
 */
function addSuffix(word: string, suffix: "ed" | "ing" | "er" | "est"): string {
  if (suffix === "ing" && /.[^eoy]e$/.test(word)) return word.slice(0, -1) + suffix;
  if (suffix !== "ing" && word.endsWith("e")) return word + suffix.slice(1);
  if (suffix !== "ing" && /[^aeiou]y$/.test(word)) return `${word.slice(0, -1)}i${suffix}`;
  if (/c$/.test(word)) return `${word}k${suffix}`;
  return shouldDoubleConsonant(word) ? word + word.at(-1) + suffix : word + suffix;
}

/** Prefixed verbs that are stressed on the last syllable, such as "admit" and "occur". */
const stressedVerb = new RegExp(
  "(ad|com|con|oc|re|de|un|o|be|for|per|trans|ab|im|ex|dis|pro)" +
    "(mit|cur|fer|pel|fit|get|bid|gin|set|rol|hor|tol|wit|bar|cat)$",
);

/** Checks whether the last consonant follows a short stressed vowel. */
function shouldDoubleConsonant(word: string): boolean {
  if (!/[^aeiou][aeiou][bdfgklmnprtvz]$/.test(word) && !/^[aeiou][bdgmnpt]$|qui[tpz]$/.test(word)) return false;
  const syllables = word.match(/[aeiouy]+/g)?.length ?? 0;
  return syllables === 1 || stressedVerb.test(word);
}

/** True if -er and -est are possible: one syllable, or two syllables that end in y. */
function canTakeSuffix(adjective: string): boolean {
  const syllables = adjective.replace(/e$/, "").match(/[aeiouy]+/g)?.length ?? 0;
  return syllables <= 1 || (syllables === 2 && adjective.endsWith("y"));
}
