/** Quotes a word for a shell. */
export function shellQuote(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Formats a command line that can be pasted into a shell. */
export function formatCommandLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}
