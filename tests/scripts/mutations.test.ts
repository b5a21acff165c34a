import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mutations } from "../../tools/mutations/list.mjs";

test.each(mutations.map((mutation) => [mutation.name, mutation] as const))(
  "make check-mutations finds the place of a planted mistake: %s",
  (_name, { file, find, tests }) => {
    expect(readFileSync(`src/${file}`, "utf8").split(find)).toHaveLength(2);
    expect(tests.filter((path) => !existsSync(path))).toEqual([]);
  },
);
