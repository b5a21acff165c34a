import { expect, test } from "vitest";
import { computeRows, type Ranks, selectShare, singleRank } from "../../src/train/ranks.js";

test("the shares of a batch have the same size, and every example is in one of them", () => {
  const share = (batch: number[], size: number): number[][] =>
    Array.from({ length: size }, (_, rank) => [...selectShare(Int32Array.from(batch), { rank, size })]);
  expect(share([4, 5, 6, 7], 1)).toEqual([[4, 5, 6, 7]]);
  expect(share([4, 5, 6, 7], 2)).toEqual([
    [4, 6],
    [5, 7],
  ]);
  // Examples are repeated where the batch cannot be divided.
  expect(share([4, 5, 6], 2)).toEqual([
    [4, 6],
    [5, 4],
  ]);
  expect(share([4, 5], 3)).toEqual([[4], [5], [4]]);
});

test("rows of different lengths, computed by two processes, have the order of the items", async () => {
  const items = Array.from({ length: 201 }, (_, i) => i);
  const compute = async (own: readonly number[]): Promise<Float32Array[]> =>
    own.map((item) => new Float32Array(item % 3).fill(item));
  const expected = await computeRows(singleRank, items, compute);
  expect(expected[5]).toEqual(Float32Array.of(5, 5));
  // The second process only records what it sends. The first one receives it.
  const sent: unknown[] = [];
  const record = <T>(value: T): T[] => {
    sent.push(value);
    return [value];
  };
  const second: Ranks = { ...singleRank, rank: 1, size: 2, exchange: record, gatherBytes: record };
  await computeRows(second, items, compute);
  const first: Ranks = {
    ...singleRank,
    size: 2,
    exchange: <T>(value: T) => [value, sent.shift() as T],
    gatherBytes: (bytes) => [Uint8Array.from(bytes), Uint8Array.from(sent.shift() as Uint8Array)],
  };
  expect(await computeRows(first, items, compute)).toEqual(expected);
  expect(sent).toEqual([]);
});
