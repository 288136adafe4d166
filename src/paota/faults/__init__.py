"""What goes wrong in the simulated world, and what guards against it. Absent unless asked for.

`[faults]` breaks things: devices drop out, get stuck, send rubbish; broadcasts get lost; the channel fades away.
`[guards]` are the checks that an honest device makes before it transmits.
"""
