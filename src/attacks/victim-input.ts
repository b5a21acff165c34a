import type { Query } from "./run-recipe.js";
import type { VictimInput } from "./victim.js";

/** A text as a victim reads it: with something else in the place of a hidden word. */
export function createVictimInput({ text, hidden }: Pick<Query, "text" | "hidden">): VictimInput {
  if (!hidden) return () => text.texts;
  const { position, shown } = hidden;
  if (shown === null) return () => text.apply({ kind: "delete", position }).texts;
  if ("word" in shown) return () => text.apply({ kind: "replace", position, word: shown.word }).texts;
  return (unkToken) => text.render(position, unkToken);
}
