export function shellQuote(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Converts a key to its flag: train.batchSize is --batch-size. */
export function toFlag(key: string): string {
  return `--${key.replace(/^.*\./, "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Formats a command line that can be pasted into a shell. */
export function formatCommandLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}
