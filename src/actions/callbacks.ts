import type { DownloadProgress } from "../hub/download.js";
import type { TrainingCallbacks } from "../train/index.js";

/**
 * How far a long action is.
 *
 *     await fineTune(config, { onProgress: ({ stage, done }) => console.log(stage, done) });
 */
export interface Progress {
  /** What is being done: "train", "evaluate", "attack pwws", … */
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  /** While training: the loss of the last optimizer step that was read from the device. */
  readonly loss?: number;
}

/**
 * What every action of the library accepts besides its request.
 *
 *     await attack(request, { onWarning: console.warn, signal: AbortSignal.timeout(60_000) });
 */
export interface Callbacks {
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly onWarning?: ((message: string) => void) | undefined;
  /** Called while a model or a dataset is downloaded. */
  readonly onDownload?: ((progress: DownloadProgress) => void) | undefined;
  /** Abort it to stop the action after it has saved its work; it then throws `Interrupted`. */
  readonly signal?: AbortSignal | undefined;
}

/** Reports the progress of a training to its own callbacks and to those of the action. */
export function reportProgress(
  callbacks: TrainingCallbacks,
  onProgress: Callbacks["onProgress"],
): Required<Pick<TrainingCallbacks, "onStep" | "onProgress">> {
  return {
    onStep(report) {
      callbacks.onStep?.(report);
      onProgress?.({ stage: "train", done: report.step, total: report.totalSteps, loss: report.loss });
    },
    onProgress(stage, done, total) {
      callbacks.onProgress?.(stage, done, total);
      onProgress?.({ stage, done, total });
    },
  };
}
