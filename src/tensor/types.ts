/** Data types by name, with libtorch's numbers for them. */
export const typeCodes = {
  uint8: 0,
  int32: 3,
  int64: 4,
  float16: 5,
  float32: 6,
  float64: 7,
  bool: 11,
  bfloat16: 15,
} as const;

export type DataType = keyof typeof typeCodes;

const names = new Map<number, DataType>(Object.entries(typeCodes).map(([name, code]) => [code, name as DataType]));

export function typeName(code: number): DataType {
  const name = names.get(code);
  if (!name) throw new Error(`libtorch data type ${code} has no name here`);
  return name;
}

export const typeBytes: Record<DataType, number> = {
  uint8: 1,
  int32: 4,
  int64: 8,
  float16: 2,
  float32: 4,
  float64: 8,
  bool: 1,
  bfloat16: 2,
};

/** "cpu", "cuda" or "cuda:N". */
export type Device = "cpu" | "cuda" | `cuda:${number}`;

/** Which of the GPUs a device is. */
export function gpuIndex(device: Device): number {
  return Number(device.split(":")[1] ?? 0);
}

export interface Options {
  type?: DataType;
  device?: Device;
}
