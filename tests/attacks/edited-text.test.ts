import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Edit, EditedText } from "../../src/attacks/edited-text.js";
import { listChanges } from "../../src/attacks/word-changes.js";

describe("edits", () => {
  const text = EditedText.create(["Hello, big world!", "a b"]);

  test("every kind of edit changes the text and the positions", () => {
    const results: [Edit, string[], number[]][] = [
      [{ kind: "replace", position: 1, word: "tiny" }, ["Hello, tiny world!", "a b"], [0, 1, 2, 3, 4]],
      [{ kind: "insert", position: 2, word: "old" }, ["Hello, big old world!", "a b"], [0, 1, -1, 2, 3, 4]],
      [{ kind: "delete", position: 0 }, [", big world!", "a b"], [1, 2, 3, 4]],
      [{ kind: "delete", position: 1 }, ["Hello, world!", "a b"], [0, 2, 3, 4]],
      [{ kind: "delete", position: 3 }, ["Hello, big world!", "b"], [0, 1, 2, 4]],
      [{ kind: "merge", position: 1, word: "globe" }, ["Hello, globe!", "a b"], [0, 1, 3, 4]],
      [{ kind: "append", field: 0, word: "end" }, ["Hello, big world! end", "a b"], [0, 1, 2, -1, 3, 4]],
      [{ kind: "append", field: 1, word: "c" }, ["Hello, big world!", "a b c"], [0, 1, 2, 3, 4, -1]],
      [{ kind: "prepend", field: 1, word: "z" }, ["Hello, big world!", "z a b"], [0, 1, 2, -1, 3, 4]],
    ];
    for (const [edit, texts, origins] of results) {
      const edited = text.apply(edit);
      expect(edited.texts).toEqual(texts);
      expect(edited.slots.map(({ origin }) => origin)).toEqual(origins);
      expect(text.texts).toEqual(["Hello, big world!", "a b"]);
    }
    expect(text.apply({ kind: "replace", position: 1, word: "ti ny" }).words).toContain("ti ny");
    expect(() => text.apply({ kind: "delete", position: 9 })).toThrow("the text has 5 words");
  });

  const word = fc.stringMatching(/^[a-z]{1,5}$/);
  const commands = fc.array(
    fc.record({
      kind: fc.constantFrom("replace", "insert", "delete", "merge", "append", "prepend"),
      at: fc.nat(),
      word,
    }),
    { maxLength: 12 },
  );
  const toEdit = (current: EditedText, kind: string, at: number, to: string): Edit | null => {
    if (kind === "append" || kind === "prepend") return { kind, field: at % current.texts.length, word: to };
    if (current.length === 0) return null;
    const position = at % current.length;
    if (kind === "delete") return { kind, position };
    if (kind === "merge" && current.slots[position + 1]?.field !== current.slots[position]!.field) return null;
    return { kind, position, word: to } as Edit;
  };

  test("positions stay correct, the original can be restored, and changes describe the result", () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(word, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 2 }),
        commands,
        (fields, list) => {
          const original = EditedText.create(fields.map((words) => words.join(" ")));
          let current = original;
          const model = original.words.map((each, origin) => ({
            word: each,
            origin,
            field: original.slots[origin]!.field,
          }));
          for (const { kind, at, word: to } of list) {
            const edit = toEdit(current, kind, at, to);
            if (!edit) continue;
            const before = current;
            const [texts, words] = [[...before.texts], before.words];
            current = current.apply(edit);
            // The words are in the text at their places, and the text before the edit is unchanged.
            if (edit.kind === "replace") model[edit.position] = { ...model[edit.position]!, word: to };
            else if (edit.kind === "insert")
              model.splice(edit.position, 0, { word: to, origin: -1, field: model[edit.position]!.field });
            else if (edit.kind === "delete") model.splice(edit.position, 1);
            else if (edit.kind === "merge") model.splice(edit.position, 2, { ...model[edit.position]!, word: to });
            else if (edit.kind === "append")
              model.splice(model.filter(({ field }) => field <= edit.field).length, 0, {
                word: to,
                origin: -1,
                field: edit.field,
              });
            else if (edit.kind === "prepend")
              model.splice(model.filter(({ field }) => field < edit.field).length, 0, {
                word: to,
                origin: -1,
                field: edit.field,
              });
            expect(current.words).toEqual(model.map((each) => each.word));
            expect(current.slots.map(({ origin, field }) => ({ origin, field }))).toEqual(
              model.map(({ origin, field }) => ({ origin, field })),
            );
            expect([before.texts, before.words]).toEqual([texts, words]);
            // Putting the old word back restores the text exactly.
            if (edit.kind === "replace")
              expect(
                current.apply({ kind: "replace", position: edit.position, word: words[edit.position]! }).texts,
              ).toEqual(texts);
            for (const { origin } of original.slots) {
              const position = current.findOrigin(origin);
              expect(position).toBe(model.findIndex((each) => each.origin === origin));
            }
          }
          const changes = listChanges(current);
          expect(current.numChanged).toBe(changes.length);
          // Applying the changes to the original words gives the final words.
          const rebuilt = original.words.map((each) => [each]);
          const tail: string[] = [];
          for (const { position, from, to } of changes) {
            if (from === "") rebuilt[position] ? rebuilt[position].splice(-1, 0, to) : tail.push(to);
            else rebuilt[position]!.splice(-1, 1, ...(to === "" ? [] : [to]));
          }
          if (changes.every(({ from }) => from !== "")) expect([...rebuilt.flat(), ...tail]).toEqual(current.words);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("versions of a text know where they differ, and whether they are equal", () => {
    const change = (from: EditedText, position: number, word: string): EditedText =>
      from.apply({ kind: "replace", position, word });
    const [one, two] = [change(change(text, 0, "Bye"), 3, "c"), change(change(text, 2, "sun"), 0, "Bye")];
    const all = [...text.slots.keys()];
    expect(one.findDifferences(two, all)).toEqual([2, 3]);
    expect(one.findDifferences(two, [0, 3])).toEqual([3]);
    // Deleted and inserted again: the same characters from another base.
    const moved = text.apply({ kind: "delete", position: 1 }).apply({ kind: "insert", position: 1, word: "big" });
    expect(moved.texts).toEqual(text.texts);
    expect(moved.isEqual(text)).toBe(true);
    expect(change(moved, 0, "Bye").findDifferences(one, all)).toEqual([3]);
    expect(change(one, 3, "a").isEqual(change(text, 0, "Bye"))).toBe(true);
    expect(one.isEqual(two)).toBe(false);
  });

  test("a hidden word leaves its neighbors and the number of changes as they are", () => {
    const glued = EditedText.create(["won't go"], (texts) =>
      [0, 2, 6].map((start, i) => ({ field: 0, start, end: [2, 5, texts[0]!.length][i]! })),
    );
    const hidden = glued.hideWord(0, "[UNK]");
    expect(hidden.texts).toEqual(["[UNK]n't go"]);
    expect([hidden.numChanged, hidden.slots[2]!.start]).toEqual([0, 9]);
    // A replacement that would join the next word gets a space, after which both words are found.
    const separated = glued.apply({ kind: "replace", position: 1, word: "could" });
    expect([separated.texts, separated.words]).toEqual([["wo could go"], ["wo", "could", "go"]]);
  });

  test("replaceAll is the same as single replacements", () => {
    const words = new Map([
      [0, "Bye"],
      [3, "first"],
    ]);
    const all = text.replaceAll(words);
    const single = text
      .apply({ kind: "replace", position: 0, word: "Bye" })
      .apply({ kind: "replace", position: 3, word: "first" });
    expect(all.texts).toEqual(single.texts);
    expect(all.slots).toEqual(single.slots);
    expect(all.numChanged).toBe(2);
  });
});
