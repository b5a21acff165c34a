import { basename } from "node:path";

/** PyTorch's own formats are all pickles (or archives of them), whatever they are called. */
export function isPickleFile(path: string): boolean {
  return /\.(bin|pt|pth|ckpt|pkl|pickle)$/i.test(path);
}

/** Why a pickle is not read, and how to turn the model (a folder or hub name) into one that is. */
export function explainPickleRejection(files: readonly string[], model: string): string {
  const names = files.map((file) => basename(file));
  const target = `${basename(model)}-safetensors`;
  const convert = [
    "import transformers as t",
    `c = t.AutoConfig.from_pretrained('${model}')`,
    `getattr(t, c.architectures[0]).from_pretrained('${model}').save_pretrained('${target}')`,
    `t.AutoTokenizer.from_pretrained('${model}').save_pretrained('${target}')`,
  ].join("; ");
  return [
    `${model}: ${names.slice(0, 3).join(", ")} is pickled: reading a pickle can run any code hidden in it, so Temper reads only safetensors.`,
    `If you trust the file, convert it once and use ${target}:`,
    `  python -c "${convert}"`,
  ].join("\n");
}
