export const dtypeCodes = {
  uint8: 0,
  int8: 1,
  int32: 3,
  int64: 4,
  float16: 5,
  float32: 6,
  float64: 7,
  bool: 11,
  bfloat16: 15,
} as const;

export type DType = keyof typeof dtypeCodes;

export const dtypeSizes: Record<DType, number> = {
  uint8: 1,
  int8: 1,
  int32: 4,
  int64: 8,
  float16: 2,
  float32: 4,
  float64: 8,
  bool: 1,
  bfloat16: 2,
};

const dtypeNames = new Map<number, DType>(Object.entries(dtypeCodes).map(([name, code]) => [code, name as DType]));

export function getDTypeName(code: number): DType {
  const name = dtypeNames.get(code);
  if (!name) throw new Error(`unsupported libtorch data type ${code}`);
  return name;
}

export type Device = "cpu" | "cuda" | `cuda:${number}`;

/** Returns the index of a GPU: 1 for "cuda:1", 0 for "cuda". */
export function getGpuIndex(device: Device): number {
  return Number(device.split(":")[1] ?? 0);
}

export interface TensorOptions {
  dtype?: DType;
  device?: Device;
}
