"""The compiled half of a simulation: pure functions on plain structures. Nothing here depends on a particular algorithm.

    play_round                  one round: devices, channel, server
    prepare                     the devices' part of it, after their training
    evaluate_model              accuracy and losses of a model
    run_events                  the loop over events; `program` compiles it

The simulator runs the loop; a deployment plays round by round.
"""

from .blocks import DeviceSignals as DeviceSignals
from .evaluation import evaluate_model as evaluate_model
from .loop import CallArguments as CallArguments
from .loop import Program as Program
from .loop import forget_programs as forget_programs
from .loop import is_known as is_known
from .loop import known_programs as known_programs
from .loop import program as program
from .loop import program_key as program_key
from .loop import run_events as run_events
from .round import RoundOutcome as RoundOutcome
from .round import RoundStart as RoundStart
from .round import apply_server_optimiser as apply_server_optimiser
from .round import play_round as play_round
from .round import prepare as prepare
from .structures import HELD_BYTES as HELD_BYTES
from .structures import PER_DEVICE as PER_DEVICE
from .structures import DeviceData as DeviceData
from .structures import EventInputs as EventInputs
from .structures import LearningProblem as LearningProblem
from .structures import Log as Log
from .structures import ProgramShape as ProgramShape
from .structures import RoundConfig as RoundConfig
from .structures import RunConstants as RunConstants
from .structures import State as State
from .structures import event_places as event_places
from .structures import inputs_of as inputs_of
from .structures import row_bytes as row_bytes
