/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command line that can be pasted into a shell. */
export function commandLine(words: readonly string[]): string {
  return words.map(quoted).join(" ");
}
