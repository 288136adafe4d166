"""Solvers for the 0-1 programme P5: HiGHS, and SCIP or CPLEX where they are installed.

One small function each, with the same arguments and the same answer, so that adding another is one more function.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from ..base.errors import UserError
from .checks import Vector
from .p5 import MixedLinear


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The best point found, or None, whether it is proven best (up to the tolerance), and the solver's own word."""

    x: Vector | None
    proven: bool
    status: str


def highs(model: MixedLinear, start: Vector, *, tolerance: float, time_limit_s: float, threads: int) -> Outcome:
    highspy = installed("highspy", "HiGHS", "highspy")
    solver = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": threads,
        "mip_rel_gap": 0.0,  # the objective is in units of h2, so the absolute gap is the meaningful one
        "mip_abs_gap": tolerance,
        "time_limit": max(time_limit_s, 0.0),
        # The searches of smaller programmes inside this one took seven eighths of the time and found nothing: the start
        # is good, and the few 0-1 variables are quickly enumerated. (A HiGHS that lacks a switch ignores it.)
        "mip_heuristic_run_rins": False,
        "mip_heuristic_run_rens": False,
        "mip_heuristic_run_root_reduced_cost": False,
    }
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_highs_model(highspy, model))
    first = highspy.HighsSolution()
    first.col_value = list(start)
    solver.setSolution(first)
    if solver.run() == highspy.HighsStatus.kError:
        # HiGHS keeps one pool of threads for the whole process and refuses to run with more of them than it has.
        highspy.Highs.resetGlobalScheduler(True)
        solver.run()
    status = solver.getModelStatus()
    found = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return Outcome(
        x=np.array(solver.getSolution().col_value) if found else None,
        proven=status == highspy.HighsModelStatus.kOptimal,
        status=str(solver.modelStatusToString(status)).lower(),
    )


def scip(model: MixedLinear, start: Vector, *, tolerance: float, time_limit_s: float, threads: int) -> Outcome:
    pyscipopt = installed("pyscipopt", "SCIP", "pyscipopt")
    solver = pyscipopt.Model()
    solver.hideOutput()
    solver.setParams({"limits/absgap": tolerance, "parallel/maxnthreads": threads})
    if math.isfinite(time_limit_s):
        solver.setParam("limits/time", max(time_limit_s, 0.0))
    variables = [solver.addVar(vtype="B" if binary else "C", lb=0.0, ub=1.0) for binary in model.binary]
    solver.setObjective(_weighted(pyscipopt, model.cost, variables), "maximize")
    for row, (columns, values) in enumerate(_rows(model)):
        left = _weighted(pyscipopt, values, [variables[k] for k in columns])
        low, high = model.row_lower[row], model.row_upper[row]
        solver.addCons(left == high if low == high else left <= high)
    first = solver.createSol()
    for variable, value in zip(variables, start, strict=True):
        solver.setSolVal(first, variable, value)
    solver.addSol(first)
    solver.optimize()
    found = solver.getNSols() > 0
    best = solver.getBestSol() if found else None
    status = str(solver.getStatus())
    return Outcome(
        x=np.array([solver.getSolVal(best, variable) for variable in variables]) if found else None,
        proven=status in ("optimal", "gaplimit"),
        status=status,
    )


def cplex(model: MixedLinear, start: Vector, *, tolerance: float, time_limit_s: float, threads: int) -> Outcome:
    cplex_module = installed("cplex", "CPLEX", "cplex")
    solver = cplex_module.Cplex()
    for stream in (
        solver.set_log_stream,
        solver.set_results_stream,
        solver.set_warning_stream,
        solver.set_error_stream,
    ):
        stream(None)
    solver.parameters.threads.set(threads)
    solver.parameters.mip.tolerances.mipgap.set(0.0)
    solver.parameters.mip.tolerances.absmipgap.set(tolerance)
    if math.isfinite(time_limit_s):
        solver.parameters.timelimit.set(max(time_limit_s, 0.0))
    solver.objective.set_sense(solver.objective.sense.maximize)
    count = model.cost.size
    types = "".join("B" if binary else "C" for binary in model.binary)
    solver.variables.add(obj=model.cost.tolist(), lb=[0.0] * count, ub=[1.0] * count, types=types)
    solver.linear_constraints.add(
        lin_expr=[cplex_module.SparsePair(columns.tolist(), values.tolist()) for columns, values in _rows(model)],
        senses="".join("E" if low == high else "L" for low, high in zip(model.row_lower, model.row_upper, strict=True)),
        rhs=model.row_upper.tolist(),
    )
    begin = cplex_module.SparsePair(list(range(count)), start.tolist())
    solver.MIP_starts.add(begin, solver.MIP_starts.effort_level.auto)
    try:
        solver.solve()
    except cplex_module.exceptions.CplexError as error:  # such as the size limit of the free edition
        raise UserError(f"CPLEX refused the problem: {str(error).strip()}") from None
    found = solver.solution.is_primal_feasible()
    status = str(solver.solution.get_status_string())
    return Outcome(
        x=np.array(solver.solution.get_values()) if found else None, proven="optimal" in status, status=status
    )


BACKENDS: dict[str, Callable[..., Outcome]] = {"highs": highs, "scip": scip, "cplex": cplex}


def installed(module: str, solver: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(f"{solver} is not installed: pip install {package}, or choose another backend") from None


def _rows(model: MixedLinear) -> list[tuple[Any, Vector]]:
    return [(model.column[a:b], model.value[a:b]) for a, b in itertools.pairwise(model.row_start)]


def _weighted(pyscipopt: ModuleType, weights: Vector, variables: list[Any]) -> Any:
    return pyscipopt.quicksum(float(w) * x for w, x in zip(weights, variables, strict=True))


def _highs_model(highspy: ModuleType, model: MixedLinear) -> Any:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.cost.size, model.row_lower.size
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, np.zeros(model.cost.size), np.ones(model.cost.size)
    whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    lp.integrality_ = [whole if binary else real for binary in model.binary]
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = model.row_start, model.column, model.value
    return lp
