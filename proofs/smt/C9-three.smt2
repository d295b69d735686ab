; C9: for lambda >= 1 the factor is at most 3
(set-logic QF_NRA)
(declare-const lambda Real)
(declare-const factor Real)
(assert (>= lambda 1.0))
(assert (= (* factor lambda) (+ (* 2.0 lambda) 1.0)))
(assert (> factor 3.0))
(check-sat)
