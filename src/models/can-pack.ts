import { hasOperator } from "../tensor/index.js";
import type { DeviceConfig } from "./device-config.js";
import type { EncoderConfig } from "./families/family.js";
import { getFamily } from "./families/index.js";

/** Returns true if a model can leave out padding: on a GPU, in bfloat16, if its family supports it. */
export function canPackTexts(config: EncoderConfig, { device, computeDtype }: DeviceConfig): boolean {
  const width = config.hiddenSize / config.numAttentionHeads;
  return (
    device !== "cpu" &&
    computeDtype === "bfloat16" &&
    (getFamily(config).packable ?? false) &&
    // The limits of the flash kernel.
    width % 8 === 0 &&
    width <= 256 &&
    process.env.TEMPER_KERNELS !== "0" &&
    hasOperator("temper::packed_attention")
  );
}

export function canPackOnCpu(config: EncoderConfig, { device }: DeviceConfig): boolean {
  return device === "cpu" && (getFamily(config).packable ?? false);
}
