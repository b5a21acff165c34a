/** base past participle; verbs that only double a consonant or take -ed are left to the rules. */
const verbs = `
  arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|befall befell befallen|begin began begun|bend bent bent|bet bet bet|bid bid bid
  bind bound bound|bite bit bitten|bleed bled bled|blow blew blown|break broke broken|breed bred bred|bring brought brought|broadcast broadcast broadcast|build built built
  burst burst burst|buy bought bought|cast cast cast|catch caught caught|choose chose chosen|cling clung clung|come came come|cost cost cost|creep crept crept|cut cut cut
  deal dealt dealt|dig dug dug|do did done|draw drew drawn|drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed fed|feel felt felt|fight fought fought
  find found found|flee fled fled|fling flung flung|fly flew flown|forbid forbade forbidden|foresee foresaw foreseen|forget forgot forgotten|forgive forgave forgiven
  forsake forsook forsaken|freeze froze frozen|get got got|give gave given|go went gone|grind ground ground|grow grew grown|hang hung hung|have had had|hear heard heard
  hide hid hidden|hit hit hit|hold held held|hurt hurt hurt|keep kept kept|know knew known|lay laid laid|lead led led|leave left left|lend lent lent|let let let
  lie lay lain|lose lost lost|make made made|mean meant meant|meet met met|mislead misled misled|mistake mistook mistaken|misunderstand misunderstood misunderstood
  outdo outdid outdone|overcome overcame overcome|oversee oversaw overseen|overtake overtook overtaken|overthrow overthrew overthrown|partake partook partaken|pay paid paid
  put put put|quit quit quit|read read read|rebuild rebuilt rebuilt|rend rent rent|rid rid rid|ride rode ridden|ring rang rung|rise rose risen|run ran run|say said said
  see saw seen|seek sought sought|sell sold sold|send sent sent|set set set|shake shook shaken|shed shed shed|shine shone shone|shoot shot shot|show showed shown
  shrink shrank shrunk|shut shut shut|sing sang sung|sink sank sunk|sit sat sat|slay slew slain|sleep slept slept|slide slid slid|sling slung slung|slit slit slit
  speak spoke spoken|spend spent spent|spin spun spun|spit spat spat|split split split|spread spread spread|spring sprang sprung|stand stood stood|steal stole stolen
  stick stuck stuck|sting stung stung|stink stank stunk|stride strode stridden|strike struck struck|string strung strung|strive strove striven|swear swore sworn
  sweep swept swept|swell swelled swollen|swim swam swum|swing swung swung|take took taken|teach taught taught|tear tore torn|tell told told|think thought thought
  throw threw thrown|thrust thrust thrust|tread trod trodden|undergo underwent undergone|understand understood understood|undertake undertook undertaken|undo undid undone
  uphold upheld upheld|upset upset upset|wake woke woken|wear wore worn|weave wove woven|weep wept wept|win won won|wind wound wound|withdraw withdrew withdrawn
  withhold withheld withheld|withstand withstood withstood|wring wrung wrung|write wrote written
`;

/** singular plural */
const nouns = `
  man men|woman women|child children|person people|foot feet|tooth teeth|goose geese|mouse mice|louse lice|ox oxen|die dice
  analysis analyses|axis axes|basis bases|crisis crises|diagnosis diagnoses|hypothesis hypotheses|oasis oases|parenthesis parentheses|synthesis syntheses|thesis theses
  criterion criteria|phenomenon phenomena|medium media|bacterium bacteria|curriculum curricula|datum data|stratum strata|stimulus stimuli|fungus fungi|nucleus nuclei|alumnus alumni
  calf calves|elf elves|half halves|hoof hooves|knife knives|leaf leaves|life lives|loaf loaves|scarf scarves|self selves|sheaf sheaves|shelf shelves|thief thieves|wife wives|wolf wolves
  sheep sheep|fish fish|deer deer|series series|species species|aircraft aircraft|offspring offspring|means means|crossroads crossroads|headquarters headquarters
  echo echoes|hero heroes|potato potatoes|tomato tomatoes|torpedo torpedoes|veto vetoes|quiz quizzes
`;

/** base comparative superlative */
const adjectives =
  "good better best|well better best|bad worse worst|ill worse worst|far farther farthest|little less least|much more most|many more most";

function parseRows(text: string): string[][] {
  return text
    .trim()
    .split(/\s*[|\n]\s*/)
    .map((row) => row.split(" "));
}

export const irregularVerbs = new Map(
  parseRows(verbs).map(([base, past, participle]) => [base!, { past: past!, participle: participle! }]),
);
export const irregularNouns = new Map(parseRows(nouns).map(([singular, plural]) => [singular!, plural!]));
export const irregularAdjectives = new Map(
  parseRows(adjectives).map(([base, more, most]) => [base!, { comparative: more!, superlative: most! }]),
);
