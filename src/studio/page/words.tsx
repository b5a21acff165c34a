import { useState } from "preact/hooks";
import type { Scored } from "../api.js";

/** The text as words. The mark of a word shows how much the model depends on it. */
export function Words({ scored, onTexts }: { scored: Scored; onTexts(texts: readonly string[]): void }) {
  const [selected, setSelected] = useState<number | null>(null);
  const { pieces, words } = scored;
  if (words.length === 0) return <p class="words waiting">{pieces.flat().map(({ text }) => text)}</p>;
  // A confident model loses little with any word, so the marks show the rank of a word.
  const ranked = words.map(({ importance }) => importance).sort((a, b) => a - b);
  const rank = (importance: number): number =>
    importance <= 0 ? 0 : ((ranked.lastIndexOf(importance) + 1) / ranked.length) ** 3;
  const original = (position: number): string => pieces.flat().find(({ word }) => word === position)?.text ?? "";
  const substitutes = selected === null ? [] : (words[selected]?.substitutes ?? []);
  const replace = (substitute: string): void => {
    onTexts(pieces.map((field) => field.map(({ text, word }) => (word === selected ? substitute : text)).join("")));
    setSelected(null);
  };
  return (
    <div class="words-box">
      {pieces.map((field, i) => (
        <p class="words" key={i}>
          {field.map(({ text, word }, k) => {
            const found = word === null ? undefined : words[word];
            if (word === null || !found) return text;
            const { importance, substitutes: options } = found;
            const points = (100 * importance).toFixed(1);
            const title = `${text}: ${points} points without it, ${options.length} substitutes`;
            return (
              <button
                type="button"
                key={k}
                class="word"
                title={title}
                aria-pressed={selected === word}
                disabled={options.length === 0}
                style={{ "--weight": rank(importance).toFixed(3) }}
                onClick={() => setSelected(selected === word ? null : word)}
              >
                {text}
              </button>
            );
          })}
        </p>
      ))}
      <p class="note">Higher marks rank words on which the prediction depends more. Choose a word to swap it.</p>
      {selected !== null && substitutes.length > 0 && (
        <div class="substitutes">
          <span>Swap “{original(selected)}” for</span>
          {substitutes.map((substitute) => (
            <button type="button" class="quiet" key={substitute} onClick={() => replace(substitute)}>
              {substitute}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
