/**
 * The lines of a text by their first words. A line is split only when it is asked for, because
 * splitting all lines of WordNet takes a second, and an attack reads few of them.
 */
export class LineIndex {
  readonly #starts = new Map<string, number>();

  /** Lines that start with a space, and empty lines, have no key. */
  constructor(
    private readonly text: string,
    keyWords = 1,
  ) {
    for (let start = 0, end = 0; start < text.length; start = end + 1) {
      end = this.#findEnd(start);
      if (end === start || text[start] === " ") continue;
      const line = text.slice(start, end);
      let keyEnd = -1;
      for (let i = 0; i < keyWords; i++) keyEnd = line.indexOf(" ", keyEnd + 1);
      this.#starts.set(line.slice(0, keyEnd), start);
    }
  }

  /** The words of the line with this key; undefined if there is none. */
  get(key: string): string[] | undefined {
    const start = this.#starts.get(key);
    return start === undefined ? undefined : this.text.slice(start, this.#findEnd(start)).trimEnd().split(" ");
  }

  #findEnd(start: number): number {
    const end = this.text.indexOf("\n", start);
    return end < 0 ? this.text.length : end;
  }
}
