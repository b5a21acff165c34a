import type { Device, DType } from "../tensor/index.js";

export interface DeviceConfig {
  readonly device: Device;
  readonly computeDtype: DType;
  /** True if the dense layers of the encoder multiply in int8, for inference on a CPU. */
  readonly isQuantized?: boolean;
}

export const cpuFloat32: DeviceConfig = { device: "cpu", computeDtype: "float32" };
