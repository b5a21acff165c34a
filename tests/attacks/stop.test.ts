import { expect, test } from "vitest";
import { z } from "zod";
import { defineAttack } from "../../src/attacks/define-attack.js";
import { createFunctionVictim } from "../../src/attacks/function-victim.js";
import { untargeted } from "../../src/attacks/goals.js";
import { equipAttack } from "../../src/attacks/load-attack.js";
import { SearchPool } from "../../src/attacks/pool.js";
import { expand, type Search, score } from "../../src/attacks/protocol.js";
import { changeCharacters } from "../../src/attacks/transformations/change-characters.js";
import { Interrupted } from "../../src/base/errors.js";
import { collect } from "./scripted.js";

/** Searches without an end, which no call of the victim interrupts. */
const searches: Record<string, Search["run"]> = {
  *"expands candidates"({ original, findOpenPositions }) {
    for (;;) yield* expand(original.text, findOpenPositions(original.text));
  },
  *"scores texts that are known"({ original }) {
    for (;;) yield* score([{ text: original.text }]);
  },
};

test.each(Object.entries(searches))("a search that %s forever can be stopped", async (_, run) => {
  const endless = defineAttack({
    name: "endless",
    summary: "never ends",
    paper: "none",
    options: z.strictObject({}),
    resources: [],
    build: () => ({
      goal: untargeted,
      transformations: [changeCharacters("swap", { candidates: "all", innerOnly: true })],
      constraints: [],
      search: { name: "endless", cost: "without a limit", run },
    }),
  });
  using pool = new SearchPool(await createFunctionVictim((texts) => texts.map(() => [0.9, 0.1])));
  const stop = new AbortController();
  // A signal arrives as this timer does: when the event loop has a turn.
  setTimeout(() => stop.abort(), 0);
  const examples = [{ id: "0", texts: ["a very quiet film"], label: 0 }];
  const results = pool.run(examples, equipAttack(endless(), {}), { seed: 0, signal: stop.signal });
  await expect(collect(results)).rejects.toThrow(Interrupted);
});
