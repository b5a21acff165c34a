import { stringify } from "yaml";
import { formatBytes, formatCount, formatDuration, formatNumber } from "../format.js";
import type { RunEstimate } from "../runs/estimate-run.js";
import { type Io, write } from "./io.js";
import { formatTable } from "./output.js";

/** A plan for people: the resolved config, then what it amounts to. */
export async function printRunEstimate(io: Io, estimate: RunEstimate): Promise<void> {
  const { examples, seconds, steps, evaluations, secondsPerStep } = estimate;
  const duration = (value: number): string => formatDuration(value * 1000);
  const parts = [
    `${duration(seconds.train)} for the steps`,
    `${duration(seconds.evaluate)} for ${formatCount(evaluations)} selections and the report`,
    ...(seconds.prepare > 0 ? [`${duration(seconds.prepare)} to prepare`] : []),
  ];
  const rows = [
    [
      "device",
      `${estimate.device}, ${estimate.precision}, ${estimate.threads} thread${estimate.threads === 1 ? "" : "s"}`,
    ],
    [
      "examples",
      `${formatCount(examples.train)} train, ${formatCount(examples.selection)} select, ${formatCount(examples.report)} report`,
    ],
    ["parameters", formatCount(estimate.parameters)],
    ["steps", `${formatCount(steps)}, ${formatNumber(secondsPerStep, 3)} s each`],
    ["time", `about ${duration(seconds.prepare + seconds.train + seconds.evaluate)}: ${parts.join(", ")}`],
    ["memory", `about ${formatBytes(estimate.memoryBytes)}`],
    ["disk", `up to ${formatBytes(estimate.diskBytes)}`],
  ];
  await write(io.stdout, `${stringify(estimate.config)}\n${formatTable(io.stdout, rows)}\n`);
}
