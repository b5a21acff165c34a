/**
 * One labeled text or pair of texts.
 *
 *     const [first]: Example[] = await task.load("test");
 */
export interface Example {
  /** Unique within its dataset: file and line, or the dataset's ID. It seeds random streams. */
  readonly id: string;
  /** One text, or two for a pair task. */
  readonly texts: readonly string[];
  /** Index into the labels of the task. */
  readonly label: number;
  /** The value of the column that divides the texts, if one was named. */
  readonly slice?: string;
}

export function formatExample({ id, texts, label }: Example): string {
  return `${JSON.stringify([id, texts, label])}\n`;
}
