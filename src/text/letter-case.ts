/** Writes `word` in the letter case of `pattern`: Good -> Great, GOOD -> GREAT. A mixed case (iPhone) has no rule: the word stays as it is. */
export function matchCase(pattern: string, word: string): string {
  if (pattern === pattern.toLowerCase()) return word;
  const [first = "", ...rest] = pattern;
  const tail = rest.join("");
  if (first !== first.toUpperCase()) return word;
  // A lone capital ("A", "I") says nothing about the letters after it.
  if (tail !== "" && tail === tail.toUpperCase() && tail !== tail.toLowerCase()) return word.toUpperCase();
  return tail === tail.toLowerCase() ? capitalize(word) : word;
}

function capitalize(word: string): string {
  const [first = "", ...rest] = word;
  return first.toUpperCase() + rest.join("");
}
