(* A1.v: replacements that are paid for by misses cost at most what the misses cost (claim A1).

   Costs, credits and thresholds are integers in one unit (say 1/full); lambda = p/q of that unit, beta = bn/bd.
   M is the sum of the step costs, S the number of replacements, Cost = M + lambda S.
   A threshold that lies between two integers is reached by a counter when the next integer is.               *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

(* ---- 1. Disjoint charges: the claim as it is stated --------------------------------------------------- *)

(* costs: the cost of each step. charges: for each replacement the steps that it is charged to. *)
Definition charged (costs : list Z) (steps : list nat) : Z := Zsum (map (fun t => nth t costs 0) steps).

Lemma Zsum_nth : forall l, Zsum l = Zsum (map (fun t => nth t l 0) (seq 0 (length l))).
Proof.
  induction l as [|x l IH]; [reflexivity|]. cbn [length seq map Zsum nth]. rewrite IH at 1.
  rewrite <- seq_shift, map_map. reflexivity.
Qed.

Theorem disjoint_charges : forall p q bn bd costs charges, 0 < q -> 0 < bn -> 0 < bd ->
  Forall (fun c => 0 <= c) costs ->
  NoDup (concat charges) -> Forall (fun t => (t < length costs)%nat) (concat charges) ->
  Forall (fun steps => p * bd <= q * bn * charged costs steps) charges ->
  p * bd * Z.of_nat (length charges) <= q * bn * Zsum costs.
Proof.
  intros p q bn bd costs charges Hq Hbn Hbd P D R C.
  assert (A : p * bd * Z.of_nat (length charges) <= q * bn * charged costs (concat charges)).
  { clear D R P. induction C as [|x l H C IH]; [cbn; lia|]. cbn [concat length].
    unfold charged in *. rewrite map_app, Zsum_app, Nat2Z.inj_succ. lia. }
  assert (B : charged costs (concat charges) <= Zsum costs).
  { rewrite (Zsum_nth costs). apply Zsum_incl; [assumption| |].
    - intros t I. rewrite Forall_forall in R. apply in_seq. apply R in I. lia.
    - intros t I. apply in_seq in I. rewrite Forall_forall in P. apply P, nth_In. lia. }
  assert (0 < q * bn) by (apply Z.mul_pos_pos; assumption). nia.
Qed.

(* Parts of costs instead of whole ones: parts_of r is what replacement r is charged, step by step, and no step
   is charged more than it costs.                                                                            *)
Fixpoint add_steps (a b : list Z) : list Z :=
  match a, b with x :: a', y :: b' => x + y :: add_steps a' b' | _, _ => [] end.

Definition together (n : nat) (parts : list (list Z)) : list Z := fold_right add_steps (repeat 0 n) parts.

Lemma add_steps_sum : forall a b, length a = length b ->
  length (add_steps a b) = length b /\ Zsum (add_steps a b) = Zsum a + Zsum b.
Proof.
  induction a as [|x a IH]; intros [|y b] H; cbn in *; try lia. destruct (IH b ltac:(lia)). lia.
Qed.

Lemma together_sum : forall n parts, Forall (fun l => length l = n) parts ->
  length (together n parts) = n /\ Zsum (together n parts) = Zsum (map Zsum parts).
Proof.
  intros n parts F. induction F as [|l parts H F [IL IS]]; cbn [together fold_right map Zsum].
  - split; [apply repeat_length|]. clear. induction n; cbn; lia.
  - fold (together n parts). destruct (add_steps_sum l (together n parts)) as [A B]; lia.
Qed.

Theorem disjoint_parts : forall p q bn bd costs parts, 0 < q -> 0 < bn ->
  Forall (fun l => length l = length costs) parts ->
  Forall2 Z.le (together (length costs) parts) costs ->
  Forall (fun l => p * bd <= q * bn * Zsum l) parts ->
  p * bd * Z.of_nat (length parts) <= q * bn * Zsum costs.
Proof.
  intros p q bn bd costs parts Hq Hb L C E. destruct (together_sum _ _ L) as [_ S].
  assert (A : Zsum (together (length costs) parts) <= Zsum costs).
  { clear S E L. induction C; cbn [Zsum]; lia. }
  assert (B : p * bd * Z.of_nat (length parts) <= q * bn * Zsum (map Zsum parts)).
  { clear C L S A. induction E; cbn [length map Zsum]; [lia|]. rewrite Nat2Z.inj_succ. lia. }
  assert (0 < q * bn) by (apply Z.mul_pos_pos; assumption). nia.
Qed.

(* ---- 2. The ledger: counters per item, one step after the other --------------------------------------- *)

(* One step: its cost, the counters that it credits, counters that are set to zero for no payment (an item
   that is admitted while there is room), and a replacement with its threshold, if there is one.             *)
Record step := Step {
  paid_cost : Z; credits : list (nat * Z); forgets : list nat; replaces : option (nat * Z) }.

Fixpoint put (i : nat) (v : Z) (l : list Z) : list Z :=
  match l, i with
  | [], _ => []
  | _ :: l', O => v :: l'
  | x :: l', S j => x :: put j v l'
  end.

Fixpoint credit_all (c : Z) (given : list (nat * Z)) (counters : list Z) : option (list Z) :=
  match given with
  | [] => Some counters
  | (i, a) :: rest =>
      if (i <? length counters)%nat && (0 <=? a) && (a <=? c)
      then credit_all c rest (put i (nth i counters 0 + a) counters) else None
  end.

(* The rules of one step, in its order: cost >= 0; at most `most` credits, each in [0, cost]; a replacement
   zeroes a counter that has reached its threshold theta >= lambda / beta.                                    *)
Definition book (most : nat) (p q bn bd : Z) (s : step) (counters : list Z) : option (list Z) :=
  if (0 <=? paid_cost s) && (length (credits s) <=? most)%nat then
    match credit_all (paid_cost s) (credits s) counters with
    | None => None
    | Some counted =>
        let kept := fold_left (fun l i => put i 0 l) (forgets s) counted in
        match replaces s with
        | None => Some kept
        | Some (i, theta) =>
            if (p * bd <=? q * bn * theta) && (theta <=? nth i kept 0) && (i <? length kept)%nat
            then Some (put i 0 kept) else None
        end
    end
  else None.

Fixpoint ledger (most : nat) (p q bn bd : Z) (counters : list Z) (steps : list step) : option (list Z) :=
  match steps with
  | [] => Some counters
  | s :: rest =>
      match book most p q bn bd s counters with
      | None => None
      | Some next => ledger most p q bn bd next rest
      end
  end.

Definition misses (steps : list step) : Z := Zsum (map paid_cost steps).
Definition replacements (steps : list step) : Z :=
  Zsum (map (fun s => match replaces s with Some _ => 1 | None => 0 end) steps).
(* Cost in units of 1/q. *)
Definition total (p q : Z) (steps : list step) : Z := q * misses steps + p * replacements steps.
Definition zeros (n : nat) : list Z := repeat 0 n.

Definition nonneg (l : list Z) : Prop := Forall (fun z => 0 <= z) l.

Lemma put_length : forall i v l, length (put i v l) = length l.
Proof. induction i as [|i IH]; intros v [|x l]; cbn; congruence. Qed.

Lemma put_sum : forall i v l, (i < length l)%nat -> Zsum (put i v l) = Zsum l - nth i l 0 + v.
Proof.
  induction i as [|i IH]; intros v [|x l] H; cbn in *; try lia. rewrite IH; lia.
Qed.

Lemma put_nonneg : forall i v l, 0 <= v -> nonneg l -> nonneg (put i v l).
Proof.
  induction i as [|i IH]; intros v [|x l] V N; cbn; try assumption; inversion N; subst;
    constructor; try assumption. now apply IH.
Qed.

Lemma nth_nonneg : forall i l, nonneg l -> 0 <= nth i l 0.
Proof.
  intros i l N. destruct (nth_in_or_default i l 0) as [H | ->]; [|lia].
  unfold nonneg in N. rewrite Forall_forall in N. now apply N.
Qed.

Lemma put_zero : forall i l, nonneg l -> nonneg (put i 0 l) /\ Zsum (put i 0 l) <= Zsum l.
Proof.
  intros i l N. split; [apply put_nonneg; [lia | assumption]|].
  destruct (Nat.lt_ge_cases i (length l)) as [H|H].
  - rewrite put_sum by assumption. pose proof (nth_nonneg i l N). lia.
  - enough (put i 0 l = l) as -> by lia. revert l N H.
    induction i as [|i IH]; intros [|x l] N H; cbn in *; try reflexivity; try lia.
    f_equal. inversion N; subst. apply IH; [assumption | lia].
Qed.

Lemma credit_all_sum : forall c given counters counted, nonneg counters ->
  credit_all c given counters = Some counted ->
  nonneg counted /\ Zsum counted <= Zsum counters + Z.of_nat (length given) * c.
Proof.
  induction given as [|[i a] rest IH]; intros counters counted N E; cbn [credit_all] in E.
  - injection E as <-. cbn. split; [assumption | lia].
  - match type of E with (if ?b then _ else _) = _ => destruct b eqn:B; [|easy] end.
    rewrite !andb_true_iff in B. destruct B as ((A & B) & C).
    apply Nat.ltb_lt in A. apply Z.leb_le in B, C. pose proof (nth_nonneg i counters N).
    destruct (IH _ _ (put_nonneg i (nth i counters 0 + a) _ ltac:(lia) N) E) as [F G].
    split; [assumption|]. rewrite put_sum in G by assumption. cbn [length]. lia.
Qed.

Lemma forget_sum : forall xs l, nonneg l ->
  nonneg (fold_left (fun l i => put i 0 l) xs l) /\ Zsum (fold_left (fun l i => put i 0 l) xs l) <= Zsum l.
Proof.
  induction xs as [|x xs IH]; intros l N; cbn; [split; [assumption | lia]|].
  destruct (put_zero x l N) as [A B]. destruct (IH _ A). split; [assumption | lia].
Qed.

Lemma book_balance : forall most p q bn bd s counters next, 0 < q -> 0 < bn -> nonneg counters ->
  book most p q bn bd s counters = Some next ->
  nonneg next /\ 0 <= paid_cost s /\
  p * bd * (match replaces s with Some _ => 1 | None => 0 end) + q * bn * Zsum next
    <= q * bn * (Zsum counters + Z.of_nat most * paid_cost s).
Proof.
  intros most p q bn bd s counters next Hq Hb N E. unfold book in E.
  match type of E with (if ?b then _ else _) = _ => destruct b eqn:B; [|easy] end.
  rewrite andb_true_iff in B. destruct B as (C & L). apply Z.leb_le in C. apply Nat.leb_le in L.
  destruct (credit_all (paid_cost s) (credits s) counters) as [counted|] eqn:D; [|easy].
  destruct (credit_all_sum _ _ _ _ N D) as [N1 S1]. clear D.
  destruct (forget_sum (forgets s) counted N1) as [N2 S2].
  set (kept := fold_left (fun l i => put i 0 l) (forgets s) counted) in *. clearbody kept.
  assert (Hqb : 0 < q * bn) by (apply Z.mul_pos_pos; assumption).
  assert (S3 : Zsum kept <= Zsum counters + Z.of_nat most * paid_cost s) by nia.
  clear S1 S2 N1 L. destruct (replaces s) as [[i theta]|].
  - match type of E with (if ?b then _ else _) = _ => destruct b eqn:B; [|easy] end.
    rewrite !andb_true_iff in B. destruct B as ((B1 & B2) & B3).
    apply Z.leb_le in B1, B2. apply Nat.ltb_lt in B3. injection E as <-.
    split; [now apply put_zero|]. split; [assumption|]. rewrite put_sum by assumption.
    set (k := nth i kept 0) in *. set (S0 := Zsum kept) in *. clearbody k S0. nia.
  - injection E as <-. split; [assumption|]. split; [assumption|]. nia.
Qed.

Lemma ledger_balance : forall most p q bn bd steps counters last, 0 < q -> 0 < bn -> nonneg counters ->
  ledger most p q bn bd counters steps = Some last ->
  0 <= misses steps /\ 0 <= replacements steps /\
  p * bd * replacements steps <= q * bn * (Zsum counters + Z.of_nat most * misses steps).
Proof.
  intros most p q bn bd steps. induction steps as [|s rest IH]; intros counters last Hq Hb N E.
  - pose proof (Zsum_nonneg _ N). assert (0 < q * bn) by (apply Z.mul_pos_pos; assumption).
    cbn. split; [lia|]. split; [lia|]. nia.
  - cbn [ledger] in E. destruct (book most p q bn bd s counters) as [next|] eqn:B; [|easy].
    destruct (book_balance _ _ _ _ _ _ _ _ Hq Hb N B) as (N' & C & A).
    destruct (IH next last Hq Hb N' E) as (M & R & I). unfold misses, replacements in *. cbn [map Zsum].
    split; [lia|]. split; [destruct (replaces s); lia|]. lia.
Qed.

(* At most `most` credits a step: lambda S <= beta most M. *)
Theorem self_financing_most : forall most p q bn bd n steps last, 0 < q -> 0 < bn ->
  ledger most p q bn bd (zeros n) steps = Some last ->
  p * bd * replacements steps <= q * bn * (Z.of_nat most * misses steps).
Proof.
  intros most p q bn bd n steps last Hq Hb E.
  assert (N : nonneg (zeros n) /\ Zsum (zeros n) = 0).
  { unfold zeros. clear. induction n as [|n [A B]]; cbn; split; try constructor; try lia; assumption. }
  destruct N as [N Z0]. destruct (ledger_balance _ _ _ _ _ _ _ _ Hq Hb N E) as (_ & _ & H).
  rewrite Z0 in H. exact H.
Qed.

(* A1: one credit a step, theta >= lambda: lambda S <= M and Cost <= 2 M. *)
Theorem self_financing : forall p q n steps last, 0 < q ->
  ledger 1 p q 1 1 (zeros n) steps = Some last ->
  p * replacements steps <= q * misses steps /\ total p q steps <= 2 * (q * misses steps).
Proof.
  intros p q n steps last Hq E.
  pose proof (self_financing_most 1 p q 1 1 n steps last Hq ltac:(lia) E). unfold total. lia.
Qed.

(* A1 with theta >= lambda / beta: lambda S <= beta M and Cost <= (1 + beta) M, multiplied by q bd. *)
Theorem self_financing_beta : forall p q bn bd n steps last, 0 < q -> 0 < bn -> 0 < bd ->
  ledger 1 p q bn bd (zeros n) steps = Some last ->
  bd * p * replacements steps <= bn * (q * misses steps) /\
  bd * total p q steps <= (bd + bn) * (q * misses steps).
Proof.
  intros p q bn bd n steps last Hq Hb Hd E.
  pose proof (self_financing_most 1 p q bn bd n steps last Hq Hb E). unfold total. lia.
Qed.

(* ---- 3. One global window: a single counter for all items --------------------------------------------- *)

(* Each step has a cost and a wish to replace; it is granted when the costs since the last replacement have
   reached theta.                                                                                            *)
Fixpoint window (theta acc : Z) (l : list (Z * bool)) : list step :=
  match l with
  | [] => []
  | (c, wish) :: rest =>
      if wish && (theta <=? acc + c)
      then Step c [(0%nat, c)] [] (Some (0%nat, theta)) :: window theta 0 rest
      else Step c [(0%nat, c)] [] None :: window theta (acc + c) rest
  end.

Lemma window_accepted : forall p q bn bd theta l acc, p * bd <= q * bn * theta ->
  Forall (fun x => 0 <= fst x) l -> exists last, ledger 1 p q bn bd [acc] (window theta acc l) = Some last.
Proof.
  intros p q bn bd theta l. induction l as [|[c wish] rest IH]; intros acc H F.
  - now exists [acc].
  - inversion F as [|? ? C F']; subst. cbn in C. cbn [window].
    assert (C' : (0 <=? c) = true) by now apply Z.leb_le.
    destruct (wish && (theta <=? acc + c)) eqn:W; cbn [ledger]; unfold book;
      cbn [paid_cost credits forgets replaces length fold_left credit_all put nth];
      rewrite C', Z.leb_refl; cbn [andb Nat.ltb Nat.leb length].
    + apply andb_true_iff in W. destruct W as [_ W]. cbn [nth]. rewrite W.
      assert (H' : (p * bd <=? q * bn * theta) = true) by now apply Z.leb_le.
      rewrite H'. cbn [andb]. now apply IH.
    + now apply IH.
Qed.

Theorem global_window : forall p q bn bd theta l, 0 < q -> 0 < bn -> 0 < bd -> p * bd <= q * bn * theta ->
  Forall (fun x => 0 <= fst x) l ->
  let steps := window theta 0 l in
  misses steps = Zsum (map fst l) /\
  bd * p * replacements steps <= bn * (q * misses steps) /\
  bd * total p q steps <= (bd + bn) * (q * misses steps).
Proof.
  intros p q bn bd theta l Hq Hb Hd H F steps. split.
  - unfold steps. clear. generalize 0 at 1. unfold misses.
    induction l as [|[c wish] rest IH]; intros acc; [reflexivity|]. cbn [window].
    destruct (wish && (theta <=? acc + c)); cbn [map Zsum fst paid_cost]; now rewrite IH.
  - destruct (window_accepted p q bn bd theta l 0 H F) as [last E].
    now apply (self_financing_beta p q bn bd 1 steps last).
Qed.

(* ---- 4. The policy gated_lru, softhit/policies/gated_lru.py ------------------------------------------- *)

(* State: the held items, least recent first, and a counter per item (Python counts down what is lacking).
   Unit sizes. touch: items retrieved for the query move to the end, the one ranked first last.              *)
Definition touch (x : nat) (l : list nat) : list nat := if mem x l then drop x l ++ [x] else l.

Definition served (s : setting) (q : query) (l : list nat) : list nat :=
  if 0 <? weight q then fold_left (fun l e => touch (item e) l) (rev (retrieved s q l)) l else l.

Definition gate (s : setting) (theta : Z) (q : query) (l : list nat) (counters : list Z)
  : list nat * list Z * change :=
  let recent := served s q l in
  let stay := Change [] [] in
  match arrival q with
  | None => (recent, counters, stay)
  | Some x =>
      if mem x l then (recent, counters, stay) else
      let count := nth x counters 0 + miss s q l in
      if Z.of_nat (length l) <? capacity s then (recent ++ [x], put x 0 counters, Change [] [x])
      else if count <? theta then (recent, put x count counters, stay)
      else match recent with
           | [] => (recent, put x count counters, stay)
           | v :: rest => (rest ++ [x], put x 0 counters, Change [v] [x])
           end
  end.

Fixpoint gated_lru (s : setting) (theta : Z) (l : list nat) (counters : list Z) (tr : list query)
  : list change :=
  match tr with
  | [] => []
  | q :: rest =>
      match gate s theta q l counters with (l', counters', c) => c :: gated_lru s theta l' counters' rest end
  end.

Definition gated_lru_schedule (s : setting) (theta : Z) (tr : list query) : list change :=
  gated_lru s theta [] (zeros (n_items s)) tr.

Lemma touch_perm : forall x l, Permutation (touch x l) l.
Proof.
  intros x l. unfold touch. destruct (mem x l) eqn:M; [|reflexivity]. apply mem_In in M.
  rewrite <- Permutation_cons_append. symmetry. now apply drop_perm.
Qed.

Lemma served_perm : forall s q l, Permutation (served s q l) l.
Proof.
  intros s q l. unfold served. destruct (0 <? weight q); [|reflexivity].
  generalize (rev (retrieved s q l)). intros es. revert l.
  induction es as [|e es IH]; intros l; cbn; [reflexivity|]. rewrite IH. apply touch_perm.
Qed.

Lemma mem_perm : forall x l l', Permutation l l' -> mem x l = mem x l'.
Proof.
  intros x l l' P. destruct (mem x l') eqn:E.
  - apply mem_In. apply mem_In in E. now apply Permutation_in with l'; [symmetry|].
  - apply mem_false. apply mem_false in E. intros I. apply E. now apply Permutation_in with l.
Qed.

Lemma miss_perm : forall s q l l', Permutation l l' -> miss s q l = miss s q l'.
Proof.
  intros s q l l' P. unfold miss, utility, retrieved.
  rewrite (filter_ext _ (fun e => mem (item e) l')); [reflexivity|]. intros e. now apply mem_perm.
Qed.

(* theta >= lambda; in update_then_serve the last credit of a replacement may be saved by it, so there
   theta >= lambda + the most that a step can cost.                                                          *)
Definition enough (s : setting) (p q theta : Z) (x : query) : Prop :=
  p * full s <= q * (theta - if serves_first s then 0 else weight x * full s).

(* verify accepts what the gate does, and a replacement is paid from a counter. *)
Lemma gate_step : forall s p q theta x l counters cache,
  valid_setting s -> unit_sizes s -> valid_query s x -> 0 < q -> 0 <= p -> enough s p q theta x ->
  sound s cache -> Permutation l cache -> nonneg counters -> length counters = n_items s ->
  let '(l', counters', c) := gate s theta x l counters in
  exists held, update s x c cache = Some held /\ Permutation l' held /\ nonneg counters' /\
    length counters' = n_items s /\
    p * full s * (Zsum (map (size s) (enters c)) - (Z.of_nat (length held) - Z.of_nat (length cache)))
      + q * Zsum counters' <= q * (Zsum counters + miss s x (if serves_first s then cache else held)).
Proof.
  intros s p q theta x l counters cache V U Q Hq Hp T S P N L.
  pose proof V as (K & F & C & _). pose proof (miss_nonneg s x cache K F Q) as M.
  assert (M' : miss s x cache <= weight x * full s).
  { pose proof (utility_bounds s x cache K F Q). destruct Q as (W & _). unfold miss. nia. }
  assert (HF : 0 <= p * full s) by nia.
  assert (Same : forall counters', nonneg counters' -> length counters' = n_items s ->
    Zsum counters' <= Zsum counters + miss s x cache ->
    exists held, update s x (Change [] []) cache = Some held /\ Permutation (served s x l) held /\
      nonneg counters' /\ length counters' = n_items s /\
      p * full s * (Zsum (map (size s) []) - (Z.of_nat (length held) - Z.of_nat (length cache)))
      + q * Zsum counters' <= q * (Zsum counters + miss s x (if serves_first s then cache else held))).
  { intros counters' N' L' B. exists cache. split; [reflexivity|]. split; [now rewrite served_perm|].
    split; [assumption|]. split; [assumption|]. cbn [map Zsum]. rewrite Z.sub_diag.
    replace (if serves_first s then cache else cache) with cache by now destruct (serves_first s). nia. }
  unfold gate. destruct (arrival x) as [a|] eqn:A; [|apply Same; try assumption; lia].
  destruct (mem a l) eqn:Ma; [apply Same; try assumption; lia|].
  assert (Ha : (a < n_items s)%nat) by (destruct Q as (_ & _ & _ & Q'); now rewrite A in Q').
  assert (May : may_enter s x a = true).
  { unfold may_enter. rewrite A, Nat.eqb_refl. apply orb_true_r. }
  assert (Size : size s a = 1).
  { unfold unit_sizes in U. rewrite Forall_forall in U. unfold size. apply U, nth_In. assumption. }
  rewrite (miss_perm s x l cache P), (Permutation_length P).
  set (m := miss s x cache) in *.
  pose proof (nth_nonneg a counters N) as Na.
  rewrite (mem_perm a l cache P) in Ma.
  assert (Put : forall v, 0 <= v -> nonneg (put a v counters) /\ length (put a v counters) = n_items s
                /\ Zsum (put a v counters) = Zsum counters - nth a counters 0 + v).
  { intros v Hv. split; [now apply put_nonneg|]. split; [now rewrite put_length|].
    apply put_sum. now rewrite L. }
  destruct (Put (nth a counters 0 + m) ltac:(lia)) as (Q1 & Q2 & Q3).
  pose proof (Same _ Q1 Q2 ltac:(lia)) as Count.
  destruct (Put 0 ltac:(lia)) as (P1 & P2 & P3). clear Same Q1 Q2 Q3.
  pose proof S as (ND & FI & US). rewrite (used_unit s cache U FI) in US.
  apply mem_false in Ma.
  destruct (Z.of_nat (length cache) <? capacity s) eqn:Room.
  - apply Z.ltb_lt in Room. exists (cache ++ [a]).
    split; [now apply update_into_room|].
    split; [rewrite served_perm; now apply Permutation_app_tail|].
    split; [assumption|]. split; [assumption|].
    rewrite app_length. cbn [enters map Zsum length]. rewrite Size, P3.
    pose proof (miss_nonneg s x (if serves_first s then cache else cache ++ [a]) K F Q).
    replace (1 + 0 - (Z.of_nat (length cache + 1) - Z.of_nat (length cache))) with 0 by lia. nia.
  - apply Z.ltb_ge in Room. destruct (nth a counters 0 + m <? theta) eqn:Th; [exact Count|].
    apply Z.ltb_ge in Th. destruct (served s x l) as [|v rest] eqn:Sv; [exact Count|]. clear Count.
    assert (PV : Permutation (v :: rest) cache) by now rewrite <- Sv, served_perm.
    assert (Iv : In v cache) by (apply Permutation_in with (v :: rest); [assumption | now left]).
    assert (PR : Permutation rest (drop v cache)).
    { apply Permutation_cons_inv with v. rewrite PV. now apply drop_perm. }
    pose proof (drop_perm v cache Iv) as DP.
    assert (LD : Z.of_nat (length cache) = 1 + Z.of_nat (length (drop v cache))).
    { rewrite (Permutation_length DP). cbn [length]. lia. }
    exists (drop v cache ++ [a]). split; [now apply update_replace|].
    split; [now apply Permutation_app_tail|]. split; [assumption|]. split; [assumption|].
    rewrite app_length. cbn [enters map Zsum length]. rewrite Size, P3.
    replace (1 + 0 - (Z.of_nat (length (drop v cache) + 1) - Z.of_nat (length cache))) with 1 by lia.
    unfold enough in T. pose proof (miss_nonneg s x (drop v cache ++ [a]) K F Q).
    destruct (serves_first s); [fold m|]; nia.
Qed.

Lemma gated_run : forall s p q theta tr l counters cache,
  valid_setting s -> unit_sizes s -> valid_trace s tr ->
  0 < q -> 0 <= p -> Forall (enough s p q theta) tr ->
  sound s cache -> Permutation l cache -> nonneg counters -> length counters = n_items s ->
  exists m z last, run s cache tr (gated_lru s theta l counters tr) = Some (m, z, last) /\ sound s last /\
    p * full s * (z - (Z.of_nat (length last) - Z.of_nat (length cache))) <= q * (Zsum counters + m).
Proof.
  intros s p q theta tr. induction tr as [|x rest IH]; intros l counters cache V U T Hq Hp Th S P N L.
  - exists 0, 0, cache. split; [reflexivity|]. split; [assumption|]. rewrite Z.sub_diag.
    pose proof (Zsum_nonneg _ N). nia.
  - inversion T as [|? ? Q T']; subst. inversion Th as [|? ? En Th']; subst. cbn [gated_lru].
    pose proof (gate_step s p q theta x l counters cache V U Q Hq Hp En S P N L) as G.
    destruct (gate s theta x l counters) as [[l' counters'] c].
    destruct G as (held & E & P' & N' & L' & B).
    destruct (update_sound _ _ _ _ _ V S E) as [S' _].
    destruct (IH l' counters' held V U T' Hq Hp Th' S' P' N' L') as (m & z & last & R & SL & I).
    cbn [run]. rewrite E, R. do 3 eexists. split; [reflexivity|]. split; [assumption|].
    replace (p * full s * (Zsum (map (size s) (enters c)) + z
             - (Z.of_nat (length last) - Z.of_nat (length cache))))
      with (p * full s * (Zsum (map (size s) (enters c)) - (Z.of_nat (length held) - Z.of_nat (length cache)))
            + p * full s * (z - (Z.of_nat (length last) - Z.of_nat (length held)))) by ring.
    lia.
Qed.

(* verify accepts the schedule of gated_lru on every valid trace with unit sizes; lambda S <= M, where S counts
   the insertions beyond the first K; and Cost <= 2 M, plus lambda K if the fill is charged.                *)
Theorem gated_lru_self_financing : forall s p q theta tr,
  valid_setting s -> unit_sizes s -> valid_trace s tr -> 0 < q -> 0 <= p -> Forall (enough s p q theta) tr ->
  exists m z last, run s [] tr (gated_lru_schedule s theta tr) = Some (m, z, last) /\
    p * full s * Z.max 0 (z - capacity s) <= q * m /\
    price s p q m z <= 2 * (q * m) + if free_fill s then 0 else p * full s * capacity s.
Proof.
  intros s p q theta tr V U T Hq Hp Th.
  assert (Z0 : nonneg (zeros (n_items s)) /\ Zsum (zeros (n_items s)) = 0).
  { unfold zeros. clear. induction (n_items s) as [|n [A B]]; cbn; split; try constructor; try lia; assumption. }
  destruct Z0 as [Z0 Z1].
  destruct (gated_run s p q theta tr [] (zeros (n_items s)) [] V U T Hq Hp Th (sound_nil s V)
              (perm_nil _) Z0 (repeat_length _ _)) as (m & z & last & R & S & I).
  exists m, z, last. split; [exact R|]. rewrite Z1 in I. cbn [length] in I.
  pose proof S as (_ & FI & US). rewrite (used_unit s last U FI) in US.
  assert (0 <= p * full s) by (destruct V as (_ & F & _); nia).
  destruct (run_nonneg _ _ _ _ _ _ _ V T R) as [M _].
  assert (B : p * full s * Z.max 0 (z - capacity s) <= q * m).
  { destruct (Z.max_spec 0 (z - capacity s)) as [[_ ->]|[_ ->]]; nia. }
  split; [exact B|]. unfold price, paid. destruct (free_fill s); [lia|].
  pose proof (Z.le_max_r 0 (z - capacity s)). nia.
Qed.

(* The same with theta >= lambda / beta, beta = bn / bd: lambda S <= beta M, Cost <= (1 + beta) M. *)
Theorem gated_lru_beta : forall s p q bn bd theta tr,
  valid_setting s -> unit_sizes s -> valid_trace s tr -> 0 < q -> 0 <= p -> 0 < bn -> 0 < bd ->
  Forall (enough s (p * bd) (q * bn) theta) tr ->
  exists m z last, run s [] tr (gated_lru_schedule s theta tr) = Some (m, z, last) /\
    bd * (p * full s * Z.max 0 (z - capacity s)) <= bn * (q * m) /\
    bd * price s p q m z
      <= (bd + bn) * (q * m) + if free_fill s then 0 else bd * (p * full s * capacity s).
Proof.
  intros s p q bn bd theta tr V U T Hq Hp Hn Hd Th.
  destruct (gated_lru_self_financing s (p * bd) (q * bn) theta tr V U T ltac:(nia) ltac:(nia) Th)
    as (m & z & last & R & B & _).
  exists m, z, last. split; [exact R|].
  assert (B' : bd * (p * full s * Z.max 0 (z - capacity s)) <= bn * (q * m)) by lia.
  split; [exact B'|]. assert (0 <= p * full s) by (destruct V as (_ & F & _); nia).
  unfold price, paid. destruct (free_fill s); [lia|].
  pose proof (Z.le_max_r 0 (z - capacity s)).
  assert (p * full s * z <= p * full s * Z.max 0 (z - capacity s) + p * full s * capacity s) by nia. nia.
Qed.

(* ---- 5. What is not covered --------------------------------------------------------------------------- *)

(* One miss of cost 1 credited to two counters (pool) pays for two replacements at lambda = 1. *)
Definition pool_steps : list step :=
  [ Step 1 [(0%nat, 1); (1%nat, 1)] [] (Some (0%nat, 1)); Step 0 [] [] (Some (1%nat, 1)) ].

Example two_credits_break_it :
  ledger 2 1 1 1 1 (zeros 2) pool_steps = Some [0; 0] /\ ledger 1 1 1 1 1 (zeros 2) pool_steps = None /\
  misses pool_steps = 1 /\ replacements pool_steps = 2 /\
  ~ 1 * replacements pool_steps <= 1 * misses pool_steps /\
  ~ total 1 1 pool_steps <= 2 * (1 * misses pool_steps).
Proof. vm_compute. repeat split; try reflexivity; intros H; now apply H. Qed.

(* update_then_serve: the counter counts the miss that the cache before the step would have had, but the step
   is served, and paid, after the admission: theta = lambda is not enough. Requests 0 1 2 3, K = 1,
   lambda = theta = 1: no misses, cost 3.                                                                   *)
Definition late : setting := Setting [1; 1; 1; 1] 1 false true true 1 1 false.
Definition early : setting := Setting [1; 1; 1; 1] 1 true true true 1 1 false.

Example update_then_serve_breaks_it :
  let tr := map hard [0; 1; 2; 3]%nat in
  run late [] tr (gated_lru_schedule late 1 tr) = Some (0, 4, [3%nat]) /\
  cost late 1 1 tr (gated_lru_schedule late 1 tr) = Some 3 /\
  cost early 1 1 tr (gated_lru_schedule early 1 tr) = Some 7.
Proof. vm_compute. repeat split; reflexivity. Qed.

Print Assumptions disjoint_charges.
Print Assumptions disjoint_parts.
Print Assumptions self_financing_most.
Print Assumptions self_financing.
Print Assumptions self_financing_beta.
Print Assumptions global_window.
Print Assumptions gated_lru_self_financing.
Print Assumptions gated_lru_beta.
Print Assumptions two_credits_break_it.
Print Assumptions update_then_serve_breaks_it.
