import { schedules } from "../nn/index.js";
import type { TrainSettings } from "./settings.js";

/** The learning rate of an update. */
export function rateOf(settings: TrainSettings, update: number, updates: number, epoch: number): number {
  const { schedule, warmup } = settings;
  const shape = Array.isArray(schedule) ? schedules.epochFactors(schedule) : schedule === "linear" ? schedules.linear : schedules.constant;
  const whole = warmup > 0 ? schedules.warmedUp(warmup, shape) : shape;
  return settings.learningRate * whole(update, updates, epoch);
}
