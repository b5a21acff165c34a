import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crc32c, TensorBoardWriter } from "../../src/actions/train/tensorboard.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

/**
 * Reads the messages of an event file and checks both checksums with a slow, simple implementation.
 */
function readRecords(path: string): Buffer[] {
  const bytes = readFileSync(path);
  const records: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = Number(bytes.readBigUInt64LE(at));
    expect(bytes.readUInt32LE(at + 8)).toBe(masked(bytes.subarray(at, at + 8)));
    const data = bytes.subarray(at + 12, at + 12 + length);
    expect(bytes.readUInt32LE(at + 12 + length)).toBe(masked(data));
    records.push(data);
    at += 16 + length;
  }
  return records;
}

/** CRC-32C bit by bit, rotated right by 15 and shifted. */
function masked(data: Uint8Array): number {
  let sum = 0xffffffffn;
  for (const byte of data) {
    sum ^= BigInt(byte);
    for (let bit = 0; bit < 8; bit++) sum = sum & 1n ? (sum >> 1n) ^ 0x82f63b78n : sum >> 1n;
  }
  sum ^= 0xffffffffn;
  return Number((((sum >> 15n) | (sum << 17n)) + 0xa282ead8n) & 0xffffffffn);
}

/** The fields of a protocol buffer by number: varints, 64-bit, 32-bit and bytes. */
function fields(message: Buffer): Map<number, (number | Buffer)[]> {
  const found = new Map<number, (number | Buffer)[]>();
  let at = 0;
  const varint = (): number => {
    for (let value = 0, factor = 1; ; factor *= 128) {
      const byte = message[at++]!;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  const take = (length: number): Buffer => {
    at += length;
    return message.subarray(at - length, at);
  };
  const read: Record<number, () => number | Buffer> = {
    0: varint,
    1: () => take(8).readDoubleLE(),
    2: () => take(varint()),
    5: () => take(4).readFloatLE(),
  };
  while (at < message.length) {
    const key = varint();
    found.set(key >> 3, [...(found.get(key >> 3) ?? []), read[key & 7]!()]);
  }
  return found;
}

test("the checksum is CRC-32C", () => {
  expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  expect(crc32c(new Uint8Array(32))).toBe(0x8a9136aa);
});

test("events are written as scalars with their steps", () => {
  const writer = new TensorBoardWriter(folder, 0, () => 1_700_000_000.5);
  writer.writeEvent({ step: 1, epoch: 0, learningRate: 0.5, loss: 0.25, "loss.task": 0.125 });
  writer.writeEvent({ step: 300, evaluation: { accuracy: 0.75 }, best: true });
  writer.close();
  const [file] = readdirSync(folder);
  expect(file).toMatch(/^events\.out\.tfevents\.1700000000\./);
  const events = readRecords(join(folder, file!)).map(fields);
  expect(events[0]!.get(3)!.map(String)).toEqual(["brain.Event:2"]);
  // The start of a session, which replaces later steps of older files.
  expect(fields(events[1]!.get(7)![0] as Buffer).get(1)).toEqual([1]);
  const scalars = events.slice(2).map((event) => ({
    time: event.get(1)![0],
    step: event.get(2)![0],
    values: fields(event.get(5)![0] as Buffer)
      .get(1)!
      .map((value) => fields(value as Buffer))
      .map((value) => [String(value.get(1)![0]), value.get(2)![0]]),
  }));
  expect(scalars).toEqual([
    {
      time: 1_700_000_000.5,
      step: 1,
      values: [
        ["train/learningRate", 0.5],
        ["train/loss", 0.25],
        ["train/loss.task", 0.125],
      ],
    },
    { time: 1_700_000_000.5, step: 300, values: [["eval/accuracy", 0.75]] },
  ]);
});
