import { stringify } from "yaml";
import { formatBytes, formatCount, formatDuration, formatNumber } from "../format.js";
import type { Plan } from "../runs/plan.js";
import { type Io, write } from "./io.js";
import { table } from "./output.js";

/** A plan for people: the resolved config, then what it amounts to. */
export async function printPlan(io: Io, plan: Plan): Promise<void> {
  const { examples, seconds, steps, evaluations, secondsPerStep } = plan;
  const duration = (value: number): string => formatDuration(value * 1000);
  const parts = [
    `${duration(seconds.train)} for the steps`,
    `${duration(seconds.evaluate)} for ${formatCount(evaluations)} selections and the report`,
    ...(seconds.prepare > 0 ? [`${duration(seconds.prepare)} to prepare`] : []),
  ];
  const rows = [
    ["device", `${plan.device}, ${plan.precision}, ${plan.threads} thread${plan.threads === 1 ? "" : "s"}`],
    ["examples", `${formatCount(examples.train)} train, ${formatCount(examples.selection)} select, ${formatCount(examples.report)} report`],
    ["parameters", formatCount(plan.parameters)],
    ["steps", `${formatCount(steps)}, ${formatNumber(secondsPerStep, 3)} s each`],
    ["time", `about ${duration(seconds.prepare + seconds.train + seconds.evaluate)}: ${parts.join(", ")}`],
    ["memory", `about ${formatBytes(plan.memoryBytes)}`],
    ["disk", `up to ${formatBytes(plan.diskBytes)}`],
  ];
  await write(io.stdout, `${stringify(plan.config)}\n${table(io.stdout, rows)}\n`);
}
