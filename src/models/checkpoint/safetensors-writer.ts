import type { FileHandle } from "node:fs/promises";
import { replaceFile } from "../../base/files.js";
import type { Tensor } from "../../tensor/index.js";
import { computeByteLength, elementSizes, quoteName, type SafetensorsDType } from "./safetensors.js";

/** A tensor to write. `bytes` is called when it is written, so one is in memory at a time. */
export interface SafetensorsTensor {
  readonly name: string;
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  bytes(): Uint8Array;
}

export function toSafetensorsTensor(name: string, tensor: Tensor): SafetensorsTensor {
  const { shape, dtype } = tensor;
  if (dtype !== "float32" && dtype !== "bool")
    throw new Error(`A checkpoint can store float32 and bool tensors, not ${dtype}.`);
  return { name, dtype: dtype === "bool" ? "BOOL" : "F32", shape, bytes: () => tensor.toBytes() };
}

/**
 * Writes a safetensors file atomically. The same tensors and metadata give the same bytes, in any
 * order. The header contains "format": "pt", because transformers rejects files without it.
 */
export async function writeSafetensors(
  path: string,
  tensors: Iterable<SafetensorsTensor>,
  metadata: Readonly<Record<string, string>> = { format: "pt" },
): Promise<void> {
  const placed = assignOffsets(tensors);
  const header = formatHeader(placed, metadata);
  await replaceFile(path, async (file) => {
    await writeFully(file, header);
    for (const tensor of placed) {
      const bytes = tensor.bytes();
      if (bytes.byteLength !== tensor.end - tensor.begin) {
        const { name, dtype, shape, begin, end } = tensor;
        throw new RangeError(
          `tensor ${quoteName(name)}: ${dtype} [${shape}] needs ${end - begin} bytes, received ${bytes.byteLength}`,
        );
      }
      await writeFully(file, bytes);
    }
  });
}

/** Sorts wide dtypes first, which keeps tensors aligned, then by name for reproducible bytes. */
function assignOffsets(
  tensors: Iterable<SafetensorsTensor>,
): (SafetensorsTensor & { readonly begin: number; readonly end: number })[] {
  const sorted = [...tensors].sort(
    (a, b) => elementSizes[b.dtype] - elementSizes[a.dtype] || (a.name < b.name ? -1 : Number(a.name > b.name)),
  );
  const names = new Set<string>();
  let begin = 0;
  return sorted.map((tensor) => {
    const { name, dtype, shape } = tensor;
    if (name === "__metadata__" || names.has(name))
      throw new Error(`tensor name ${quoteName(name)} is reserved or used twice`);
    names.add(name);
    const length = computeByteLength(dtype, shape);
    if (length === null || !shape.every((extent) => Number.isSafeInteger(extent) && extent >= 0))
      throw new RangeError(`tensor ${quoteName(name)}: [${shape}] is not a valid shape`);
    const end = begin + length;
    const entry = { name, dtype, shape, bytes: () => tensor.bytes(), begin, end };
    begin = end;
    return entry;
  });
}

function formatHeader(
  placed: readonly (SafetensorsTensor & { readonly begin: number; readonly end: number })[],
  metadata: Readonly<Record<string, string>>,
): Buffer {
  const entries = placed.map(({ name, dtype, shape, begin, end }): [string, object] => [
    name,
    { dtype, shape, data_offsets: [begin, end] },
  ]);
  const sortedMetadata = Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)));
  const fields = [["__metadata__", sortedMetadata] as const, ...entries].map(
    ([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`,
  );
  const text = Buffer.from(`{${fields.join(",")}}`);
  const padded = Math.ceil(text.length / 8) * 8;
  const header = Buffer.alloc(8 + padded, " ");
  header.writeBigUInt64LE(BigInt(padded));
  text.copy(header, 8);
  return header;
}

async function writeFully(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    done += (await file.write(bytes, done, Math.min(bytes.byteLength - done, 1 << 30))).bytesWritten;
  }
}
