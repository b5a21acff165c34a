/** Pairs each character with the one at the same place of the other string. */
function pairCharacters(from: string, to: string): Map<string, string> {
  const others = [...to];
  return new Map([...from].map((character, i) => [character, others[i]!]));
}

/** Characters that look like lowercase letters, digits and marks (TextBugger). */
export const homoglyphs: ReadonlyMap<string, string> = pairCharacters(
  "abcdefghijklmnopqrstuvwxyz0123456789-'",
  "\u{251}\u{42c}\u{3f2}\u{501}\u{435}\u{1d68f}\u{261}\u{570}\u{456}\u{3f3}\u{1d48c}\u{217c}" +
    "\u{ff4d}\u{578}\u{43e}\u{440}\u{51b}\u{2c85}\u{455}\u{1d69d}\u{57d}\u{475}\u{51d}\u{d7}\u{443}" +
    "\u{1d22}Ol\u{14bf}\u{1b7}\u{13ce}\u{1bc}\u{431}\u{1d7d5}\u{222}\u{9ed}\u{2d7}\u{60}",
);

/** Characters that Unicode lists as intentionally confusable with ASCII (UTS 39). */
export const confusables: ReadonlyMap<string, string> = pairCharacters(
  "!ABCEHIJKMNOPSTXYZacdehijopsxy",
  "\u{1c3}\u{391}\u{392}\u{421}\u{395}\u{397}\u{399}\u{408}\u{39a}\u{39c}\u{39d}\u{39f}\u{3a1}" +
    "\u{405}\u{3a4}\u{3a7}\u{3a5}\u{396}\u{430}\u{441}\u{501}\u{435}\u{4bb}\u{456}\u{3f3}\u{3bf}" +
    "\u{440}\u{455}\u{445}\u{443}",
);

/** The keys around each letter of a QWERTY keyboard. */
export const keyboardNeighbors: ReadonlyMap<string, string> = new Map(
  (
    "q:was w:qeasd e:wsdfr r:edfgt t:rfghy y:tghju u:yhjki i:ujklo o:iklp p:ol a:qwszx s:qweadzx d:werfcxs " +
    "f:ertgvcd g:rtyhbvd h:tyugjbn j:yuikmnh k:uiolmj l:iopk z:asx x:sdzc c:xdfv v:cfgb b:vghn n:bhjm m:njk"
  )
    .split(" ")
    .map((pair) => pair.split(":") as [string, string]),
);

/** One digit per letter, as in leetspeak. */
export const leetDigits: ReadonlyMap<string, string> = pairCharacters("abegilostz", "4839110572");
