import { schedules } from "../nn/index.js";
import type { TrainSettings } from "./settings.js";

/** The part of the highest learning rate that an update has. */
export function computeLearningRateFactor(
  settings: TrainSettings,
  update: number,
  updates: number,
  epoch: number,
): number {
  const { lrScheduler: schedule, warmupRatio: warmup } = settings;
  const shape = Array.isArray(schedule)
    ? schedules.epochFactors(schedule)
    : schedule === "linear"
      ? schedules.linear
      : schedules.constant;
  const whole = warmup > 0 ? schedules.withWarmup(warmup, shape) : shape;
  return whole(update, updates, epoch);
}
