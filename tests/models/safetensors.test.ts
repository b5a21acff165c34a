import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { openCheckpoint } from "../../src/models/checkpoint/checkpoint.js";
import { openSafetensors } from "../../src/models/checkpoint/safetensors.js";
import { type SafetensorsTensor, writeSafetensors } from "../../src/models/checkpoint/safetensors-writer.js";
import { chooseExtent } from "../extent.js";
import { findPython, runPython } from "../python.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const fixture = join(import.meta.dirname, "../fixtures/models/python.safetensors");
const toBytes = (values: ArrayBufferView): Uint8Array =>
  new Uint8Array(values.buffer, values.byteOffset, values.byteLength);

const tensors: SafetensorsTensor[] = [
  { name: "b", dtype: "BF16", shape: [3], bytes: () => toBytes(new Uint16Array([0x3f80, 0xbf00, 0])) },
  { name: "a.größe 😀", dtype: "F32", shape: [2, 3], bytes: () => toBytes(new Float32Array([1, 2, 3, 4, 5, 6.5])) },
  { name: "empty", dtype: "F32", shape: [0, 4], bytes: () => new Uint8Array() },
  { name: "scalar", dtype: "I64", shape: [], bytes: () => toBytes(new BigInt64Array([-5n])) },
  { name: "flag", dtype: "BOOL", shape: [1], bytes: () => new Uint8Array([1]) },
];

/** Writes a file with a header (bytes, text or JSON value) and N bytes of data. */
function writeFile(header: unknown, dataBytes: number, claimedLength?: bigint): string {
  const text = Buffer.isBuffer(header)
    ? header
    : Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const prefix = Buffer.alloc(8);
  prefix.writeBigUInt64LE(claimedLength ?? BigInt(text.length));
  const path = join(folder, "custom.safetensors");
  writeFileSync(path, Buffer.concat([prefix, text, Buffer.alloc(dataBytes)]));
  return path;
}

async function getRejection(path: string): Promise<string> {
  const error: unknown = await openSafetensors(path).then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(UserError);
  return (error as UserError).message;
}

describe("reader", () => {
  test("reads a file written by the official library", async () => {
    const file = await openSafetensors(fixture);
    expect(file.metadata).toEqual({ format: "pt" });
    expect(Object.fromEntries([...file.entries].map(([name, { dtype, shape }]) => [name, [dtype, ...shape]]))).toEqual({
      "encoder.weight": ["F32", 2, 3],
      "encoder.half": ["F16", 3],
      "encoder.brain": ["BF16", 2, 1],
      ids: ["I64", 2],
      mask: ["BOOL", 3],
      scalar: ["F64"],
      empty: ["F32", 0, 4],
      "größe 😀": ["U8", 1],
    });
    expect([...new Float32Array(file.readSync("encoder.weight").buffer as ArrayBuffer)]).toEqual([
      0, 0.25, 0.5, 0.75, 1, 1.25,
    ]);
    expect([...new Uint16Array(file.readSync("encoder.half").buffer as ArrayBuffer)]).toEqual([0x3c00, 0xc000, 0x7bff]);
    expect([...new BigInt64Array(file.readSync("ids").buffer as ArrayBuffer)]).toEqual([-1n, 2n ** 40n]);
    expect(file.readSync("empty").length).toBe(0);
    expect([...file.readSync("mask")]).toEqual([1, 0, 1]);
    expect(() => file.readSync("none")).toThrow(/no tensor "none" among its 8/);
    await file.close();
  });

  const entry = (shape: unknown, begin: number, end: number, dtype = "F32"): object => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  });
  test.each<[string, unknown, number, RegExp]>([
    [
      "a range beyond the file",
      { w: entry([4], 0, 16) },
      8,
      /tensor "w": bytes 0 to 16 are outside the 8 bytes of data/,
    ],
    ["a range that ends before it begins", { w: entry([0], 4, 0) }, 4, /bytes 4 to 0/],
    [
      "a range that does not fit the shape",
      { w: entry([2, 3], 0, 20) },
      20,
      /F32 of shape \[2, 3\] needs 24 bytes, but the range 0 to 20 has 20/,
    ],
    [
      "overlapping ranges",
      { a: entry([2], 0, 8), b: entry([2], 4, 12) },
      12,
      /"b" begins at byte 4, inside "a", which ends at 8/,
    ],
    ["a gap", { a: entry([1], 0, 4), b: entry([1], 8, 12) }, 12, /bytes 4 to 8 before tensor "b"/],
    ["a gap at the start", { a: entry([1], 4, 8) }, 8, /bytes 0 to 4 before tensor "a"/],
    ["bytes left over", { a: entry([1], 0, 4) }, 7, /3 bytes after the last tensor/],
    ["a negative size", { w: entry([-1, 4], 0, 16) }, 16, /expected a shape of integers/],
    ["a fractional size", { w: entry([1.5], 0, 6) }, 6, /expected a shape of integers/],
    ["a huge size", { w: entry([2 ** 53], 0, 16) }, 16, /expected a shape of integers/],
    ["sizes whose product is huge", { w: entry([2 ** 40, 2 ** 40], 0, 16) }, 16, /is too large/],
    ["no shape", { w: { dtype: "F32", data_offsets: [0, 4] } }, 4, /expected a shape of integers/],
    ["three offsets", { w: { dtype: "F32", shape: [1], data_offsets: [0, 4, 4] } }, 4, /two integers/],
    ["an unknown dtype", { w: entry([1], 0, 4, "F33") }, 4, /unknown dtype .*F33.*expected one of BOOL/],
    ["a dtype from the prototype", { w: entry([1], 0, 4, "toString") }, 4, /unknown dtype/],
    ["an entry that is not an object", { w: 3 }, 0, /expected an object/],
    ["metadata that are not strings", { __metadata__: { a: 1 } }, 0, /__metadata__ to map strings/],
    [
      "a duplicate name",
      '{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
      2,
      /bytes 0 to 1 before tensor "w" are unused/,
    ],
    ["a header that is an array", "[]", 0, /expected a JSON object as header/],
    ["a header that is not JSON", '{"w": ', 0, /not valid JSON at 1:7/],
    ["a deeply nested header", `{"w":${"[".repeat(50_000)}`, 0, /deep/],
    ["a header that begins with a space", " {}", 0, /expected a JSON object as header/],
  ])("rejects %s", async (_, header, dataBytes, message) => {
    expect(await getRejection(writeFile(header, dataBytes))).toMatch(message);
  });

  test("rejects impossible header sizes without allocating them", async () => {
    expect(await getRejection(writeFile("{}", 0, 99_000_000n))).toMatch(/claims 99000000 bytes, but only 2 follow/);
    expect(await getRejection(writeFile("{}", 0, 2n ** 64n - 1n))).toMatch(
      /claims 18446744073709551615 bytes, but the format allows 100000000/,
    );
    expect(await getRejection(writeFile(Buffer.from([0x7b, 0xff, 0x7d]), 0))).toMatch(/not UTF-8/);
  });

  test("rejects folders, pipes, missing files and renamed pickles", async () => {
    expect(await getRejection(folder)).toMatch(/this is a folder, expected a file/);
    expect(await getRejection(join(folder, "none.safetensors"))).toMatch(/cannot read .*there is no such file/);
    const pipe = join(folder, "pipe.safetensors");
    execFileSync("mkfifo", [pipe]);
    expect(await getRejection(pipe)).toMatch(/expected the weights in a regular file, found a pipe or a device/);
    const renamed = join(folder, "renamed.safetensors");
    writeFileSync(renamed, "PK\x03\x04\x00\x00\x08\x08 an archive");
    expect(await getRejection(renamed)).toMatch(/is a pickle, which can run code/);
  });

  test("rejects every truncation", async () => {
    const intact = readFileSync(fixture);
    const path = join(folder, "cut.safetensors");
    for (let length = 0; length < intact.length; length += chooseExtent(7, 1)) {
      writeFileSync(path, intact.subarray(0, length));
      await getRejection(path);
    }
  });
});

describe("writer", () => {
  test("writes files that the reader can read, with the same bytes for any order", async () => {
    const [path, reversed] = [join(folder, "ours.safetensors"), join(folder, "reversed.safetensors")];
    await writeSafetensors(path, tensors, { format: "pt", by: "temper" });
    await writeSafetensors(reversed, [...tensors].reverse(), { by: "temper", format: "pt" });
    expect(readFileSync(reversed).equals(readFileSync(path))).toBe(true);
    expect(Number(readFileSync(path).readBigUInt64LE()) % 8).toBe(0);
    const file = await openSafetensors(path);
    expect(file.metadata).toEqual({ by: "temper", format: "pt" });
    expect(file.entries.size).toBe(tensors.length);
    for (const tensor of tensors) {
      const entry = file.entries.get(tensor.name)!;
      expect(entry).toMatchObject({ dtype: tensor.dtype, shape: tensor.shape });
      expect(file.readSync(tensor.name)).toEqual(new Uint8Array(tensor.bytes()));
    }
    expect(file.entries.get("scalar")!.begin % 8).toBe(0);
    await file.close();
  });

  test("keeps the old file if writing fails, and rejects invalid tensors", async () => {
    const inside = join(folder, "kept");
    mkdirSync(inside);
    const path = join(inside, "model.safetensors");
    await writeSafetensors(path, tensors);
    const before = readFileSync(path);
    const short = { ...tensors[0]!, bytes: () => new Uint8Array(2) };
    await expect(writeSafetensors(path, [short])).rejects.toThrow(/"b": BF16 \[3\] needs 6 bytes, received 2/);
    await expect(writeSafetensors(path, [tensors[0]!, tensors[0]!])).rejects.toThrow(/used twice/);
    await expect(writeSafetensors(path, [{ ...tensors[0]!, shape: [-3] }])).rejects.toThrow(/not a valid shape/);
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(inside)).toEqual(["model.safetensors"]);
    await expect(writeSafetensors(join(folder, "none", "x"), tensors)).rejects.toBeInstanceOf(UserError);
  });

  const python = findPython("torch", "safetensors");
  test.skipIf(python === null)(
    "the official library can read it (skipped without a Python with torch and safetensors)",
    async () => {
      const path = join(folder, "for-python.safetensors");
      await writeSafetensors(path, tensors);
      const program = `
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1], "pt") as f:
    print(json.dumps({"metadata": f.metadata(), **{k: [str(f.get_tensor(k).dtype), list(f.get_tensor(k).shape), f.get_tensor(k).tolist()] for k in f.keys()}}))`;
      expect(runPython(python!, program, path)).toEqual({
        metadata: { format: "pt" },
        b: ["torch.bfloat16", [3], [1, -0.5, 0]],
        "a.größe 😀": [
          "torch.float32",
          [2, 3],
          [
            [1, 2, 3],
            [4, 5, 6.5],
          ],
        ],
        empty: ["torch.float32", [0, 4], []],
        scalar: ["torch.int64", [], -5],
        flag: ["torch.bool", [1], [true]],
      });
    },
  );
});

describe("checkpoint", () => {
  async function sharded(name: string, weightMap: unknown): Promise<string> {
    const inside = join(folder, name);
    mkdirSync(inside);
    await writeSafetensors(join(inside, "model-00001-of-00002.safetensors"), tensors.slice(0, 2));
    await writeSafetensors(join(inside, "model-00002-of-00002.safetensors"), tensors.slice(2));
    writeFileSync(
      join(inside, "model.safetensors.index.json"),
      JSON.stringify({ metadata: { total_size: 1 }, weight_map: weightMap }),
    );
    return inside;
  }
  const [first, second] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

  test("opens one file with any name, or all shards", async () => {
    const single = join(folder, "single");
    mkdirSync(single);
    copyFileSync(fixture, join(single, "model.fp16.safetensors"));
    const one = await openCheckpoint(single);
    expect(one.entries.size).toBe(8);
    await one.close();
    const all = await openCheckpoint(
      await sharded("sharded", { b: first, "a.größe 😀": first, scalar: second, flag: second, empty: second }),
    );
    expect([...all.entries.keys()].sort()).toEqual(tensors.map((tensor) => tensor.name).sort());
    for (const tensor of tensors) expect(all.readSync(tensor.name)).toEqual(new Uint8Array(tensor.bytes()));
    expect(all.readSync("flag")).toEqual(new Uint8Array([1]));
    expect(() => all.readSync("none")).toThrow(UserError);
    await all.close();
  });

  test.each<[string, unknown, RegExp]>([
    ["a tensor that is not in its shard", { b: second }, /model-00002-of-00002.safetensors lacks the tensor "b"/],
    ["a missing shard", { b: "model-00003.safetensors" }, /model-00003.safetensors: there is no such file/],
    [
      "a shard in another folder",
      { b: "../single/model.fp16.safetensors" },
      /expected a .safetensors file in the same folder/,
    ],
    ["an absolute shard", { b: "/etc/model.safetensors" }, /expected a .safetensors file in the same folder/],
    ["a pickled shard", { b: "pytorch_model-00001.bin" }, /expected a .safetensors file in the same folder/],
    ["no tensors", {}, /contains no tensor/],
    ["no map", [], /weight_map: expected record, received \[\]/],
  ])("rejects an index with %s", async (name, weightMap, message) => {
    const checkpoint = openCheckpoint(await sharded(name, weightMap));
    await expect(checkpoint).rejects.toThrow(message);
    await expect(checkpoint).rejects.toBeInstanceOf(UserError);
  });

  test("rejects pickles with a reason and a remedy", async () => {
    for (const name of ["pytorch_model.bin", "model.pt", "best.ckpt"]) {
      const inside = join(folder, `pickle-${name}`);
      mkdirSync(inside);
      writeFileSync(join(inside, name), "\x80\x02");
      const checkpoint = openCheckpoint(inside);
      await expect(checkpoint).rejects.toBeInstanceOf(UserError);
      await expect(checkpoint).rejects.toThrow(/is a pickle, which can run code[\s\S]*python -c "import transformers/);
      expect(await getRejection(join(inside, name))).toMatch(/is a pickle/);
    }
  });

  test("explains what is missing in a folder without weights", async () => {
    await expect(openCheckpoint(join(folder, "nowhere"))).rejects.toThrow(
      /cannot open the model folder .*nowhere: there is no such/,
    );
    mkdirSync(join(folder, "bare"));
    writeFileSync(join(folder, "bare", "config.json"), "{}");
    await expect(openCheckpoint(join(folder, "bare"))).rejects.toThrow(
      /expected model.safetensors or .* found config.json/,
    );
  });
});
