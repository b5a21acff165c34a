import type { Query } from "./run-recipe.js";

/** The texts that a victim reads: with something else in the place of a hidden word. */
export function renderQuery({ text, hidden }: Pick<Query, "text" | "hidden">, unkToken: string): readonly string[] {
  if (!hidden) return text.texts;
  const { position, shown } = hidden;
  if (shown === null) return text.apply({ kind: "delete", position }).texts;
  if ("word" in shown) return text.apply({ kind: "replace", position, word: shown.word }).texts;
  return text.render(position, unkToken);
}
