import type { DownloadProgress } from "../models/download.js";
import type { Io } from "./io.js";
import { createProgress, type Progress } from "./progress.js";

/** Shows the files that a model's loading fetches, one bar a file. Call `end` when the model is there. */
export function createDownloadProgress(
  io: Io,
  quiet: boolean | undefined,
): { onProgress(progress: DownloadProgress): void; end(): void } {
  let current: { file: string; progress: Progress } | undefined;
  return {
    onProgress({ file, received, total }) {
      if (current?.file !== file) {
        current?.progress.end();
        const progress = createProgress({
          label: file,
          total,
          unit: "bytes",
          start: received,
          quiet,
          stream: io.stderr,
        });
        current = { file, progress };
      }
      current.progress.update(received);
    },
    end: () => current?.progress.end(),
  };
}
