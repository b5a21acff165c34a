import { Argument, Command } from "@commander-js/extra-typings";
import { attacks } from "../../attacks/recipes/index.js";
import { methods } from "../../methods/index.js";
import { files } from "../../runs/run-files.js";
import { taskNames } from "../../tasks/index.js";
import type { CommandEntry } from "../command.js";
import { type Io, write } from "../io.js";

export const note = "Load it in every shell: put the output into the file that the examples name.";
export const examples = [
  "temper completion bash >> ~/.bashrc",
  "temper completion zsh >> ~/.zshrc",
  "temper completion fish > ~/.config/fish/completions/temper.fish",
];

/** Flags whose values have names, and what follows a command that lists them. */
const namedValues: Readonly<Record<string, readonly string[]>> = {
  "--attack": [...attacks.keys()],
  "--method": [...methods.keys()],
  "--task": taskNames,
};
const listCommands: Readonly<Record<string, string>> = { attacks: "--attack", methods: "--method" };

/** The names of arguments that a run folder can be. */
const runArguments = new Set(["run", "runs", "model", "models", "journals", "folder", "folders"]);

interface Completion {
  readonly name: string;
  readonly summary: string;
  readonly words: readonly string[];
  readonly takesRuns: boolean;
  readonly flags: readonly Flag[];
}

interface Flag {
  readonly flag: string;
  readonly description: string;
  /** Empty if any value is possible. */
  readonly values: readonly string[];
}

const shells: Readonly<Record<string, (all: readonly Completion[]) => string>> = {
  bash: formatBash,
  zsh: (all) => `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${formatBash(all)}`,
  fish: formatFish,
};

type Commands = Readonly<Record<string, CommandEntry>>;

export function define(command: Command, io: Io, commands: Commands): void {
  command
    .addArgument(new Argument("<shell>", "bash, zsh or fish").choices(Object.keys(shells)))
    .action(async (shell) => write(io.stdout, shells[shell]!(await listCompletions(io, commands))));
}

/** Reads the flags from the definitions of the commands, so the script is never out of date. */
async function listCompletions(io: Io, commands: Commands): Promise<Completion[]> {
  const visible = Object.entries(commands).filter(([, { hidden }]) => !hidden);
  return Promise.all(
    visible.map(async ([name, { summary, load }]) => {
      const command = new Command(name);
      (await load()).define(command, io, commands);
      const all = [command, ...command.commands];
      const flags = all
        .flatMap(({ options }) => options)
        .flatMap(({ long, description, argChoices }) =>
          long ? [[long, { flag: long, description, values: argChoices ?? namedValues[long] ?? [] }] as const] : [],
        );
      const positional = all.flatMap(({ registeredArguments }) => registeredArguments);
      return {
        name,
        summary,
        words: [
          ...command.commands.map((each) => each.name()),
          ...positional.flatMap(({ argChoices }) => argChoices ?? []),
          ...(namedValues[listCommands[name] ?? ""] ?? []),
        ],
        takesRuns: positional.some((argument) => runArguments.has(argument.name())),
        flags: [...new Map(flags).values()],
      };
    }),
  );
}

function formatBash(all: readonly Completion[]): string {
  const cases = all.map(({ name, words, takesRuns, flags }) => {
    const runs = takesRuns ? "; runs=1" : "";
    return `    ${name}) words="${words.join(" ")}"; flags="${flags.map(({ flag }) => flag).join(" ")} --help"${runs} ;;`;
  });
  const valued = all.flatMap(({ name, flags }) =>
    flags.flatMap(({ flag, values }) =>
      values.length > 0 ? [`    "${name} ${flag}") flags=""; runs=""; words="${values.join(" ")}" ;;`] : [],
    ),
  );
  // Without a match, the shell completes file names.
  return `_temper_runs() {
  local pattern
  for pattern in "$1*/${files.config}" "$1*/*/${files.config}" "$1*/*/*/${files.config}"; do compgen -G "$pattern"; done |
    while read -r pattern; do printf '%s\\n' "\${pattern%/${files.config}}"; done
}
_temper() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words="" flags="" runs=""
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then words="${all.map(({ name }) => name).join(" ")}"; flags="--help --version"; runs=""; fi
  if [ "$COMP_CWORD" -gt 2 ]; then words=""; fi
  case "\${COMP_WORDS[1]} \${COMP_WORDS[COMP_CWORD-1]}" in
${valued.join("\n")}
  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current") $([ -z "$runs" ] || _temper_runs "$current")) ;;
  esac
}
complete -o default -F _temper temper
`;
}

function formatFish(all: readonly Completion[]): string {
  const quote = (text: string): string => `'${text.replace(/[\\']/g, "\\$&")}'`;
  const lines = all.flatMap(({ name, summary, words, takesRuns, flags }) => {
    const after = `complete -c temper -n '__fish_seen_subcommand_from ${name}'`;
    return [
      `complete -c temper -n __fish_use_subcommand -f -a ${name} -d ${quote(summary)}`,
      ...words.map((word) => `${after} -f -a ${word}`),
      ...(takesRuns ? [`${after} -a '(__temper_runs)'`] : []),
      ...flags.map(({ flag, description, values }) => {
        const option = `${after} -l ${flag.slice(2)}`;
        const described = `${option} -d ${quote(description)}`;
        // In a command of their own, the values are not described by the text of the flag.
        return values.length > 0 ? `${option} -x -a ${quote(values.join(" "))}\n${described}` : described;
      }),
    ];
  });
  return `function __temper_runs
  set -l start (commandline -ct)
  for file in $start*/${files.config} $start*/*/${files.config} $start*/*/*/${files.config}
    string replace -r '/${files.config}$' '' $file
  end
end
${lines.join("\n")}
`;
}
